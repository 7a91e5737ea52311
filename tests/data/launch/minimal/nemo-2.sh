nemo llm pretrain --factory llama3_8b
