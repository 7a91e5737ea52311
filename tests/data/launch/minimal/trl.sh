trl sft --model_name_or_path meta-llama/Llama-3.1-8B
