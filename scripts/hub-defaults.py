#!/usr/bin/env python3
"""Writes what a config.json that leaves keys out means, from the installed library `transformers` (and torch, on its meta device):
the [defaults] of model/presets/hub.toml, and tests/model/input/hub_counts.csv, the weights of the models that it builds from files
that state sizes only. Types that no such class has keep the lines written by hand here, each from the code beside its weights."""
import csv
import json
import os
import re
import sys
import tomllib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, PreTrainedConfig  # noqa: E402

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HUB = os.path.join(HERE, "model/presets/hub.toml")
COUNTS = os.path.join(HERE, "tests/model/input/hub_counts.csv")
MARK = "# From here on written by scripts/hub-defaults.py"

# Configurations of models whose code lies beside their weights, not in the library (their configuration_NAME.py).
BY_HAND = {
    "RefinedWeb": {"tie_word_embeddings": True, "multi_query": False, "parallel_attn": True, "bias": False},
    "RefinedWebModel": {"tie_word_embeddings": True, "multi_query": True, "parallel_attn": True, "bias": False},
    "qwen": {"tie_word_embeddings": False},
    "chatglm": {"tie_word_embeddings": False, "add_bias_linear": False, "add_qkv_bias": False, "rmsnorm": True,
                "multi_query_attention": False, "kv_channels": 128, "multi_query_group_num": 1},
    "baichuan": {"tie_word_embeddings": False},
    "internlm2": {"tie_word_embeddings": False, "bias": True},
    "minicpm": {"tie_word_embeddings": True},
    "grok-1": {"tie_word_embeddings": True}, "grok1": {"tie_word_embeddings": True}, "grok": {"tie_word_embeddings": True},
    "deepseek": {"tie_word_embeddings": False, "first_k_dense_replace": 0, "moe_layer_freq": 1},
    "bailing_moe": {"tie_word_embeddings": False}, "bailing_moe_v2": {"tie_word_embeddings": False},
    "hunyuan": {"tie_word_embeddings": False},
    "*": {"tie_word_embeddings": True},
}
# Of kimi_k2 the configuration is DeepSeek-V3's.
SAME_AS = {"kimi_k2": "deepseek_v3"}
# A default that the class computes, where the reader has a key for it.
COMPUTED = {"dots1": {"use_sliding_window": True}, "glm4_moe_lite": {"first_k_dense_replace": 1},
            "hy_v3": {"first_k_dense_replace": 1}, "axk1": {"first_k_dense_replace": 1}}
RULES = {"use_sliding_window", "max_window_layers", "sliding_window", "sliding_window_pattern", "_sliding_window_pattern", "attention_chunk_size", "use_parallel_residual",
         "new_decoder_architecture", "multi_query", "parallel_attn", "alibi", "bias", "no_bias", "expansion_ratio", "window_size",
         "position_embedding_type", "intermediate_size_mlp", "decoder_sparse_step", "moe_layer_freq", "tie_word_embeddings",
         "shared_expert_intermediate_size", "shared_intermediate_size", "do_layer_norm_before", "attn_config.alibi", "num_nextn_predict_layers"}
SIZES = {"layers": 8, "hidden": 2048, "heads": 32, "ffn": 5632, "vocab": 50000, "moe.experts": 16, "moe.top_k": 4, "moe.ffn": 768,
         "max_positions": 1024, "mla.kv_rank": 256, "mla.nope_dim": 64, "mla.rope_dim": 32, "mla.value_dim": 96,
         "ffn_config.ffn_hidden_size": 5632, "mamba.heads": 64}


# What a class cannot be built without.
EXTRA = {"dots1": {"n_shared_experts": 2}, "nemotron": {"num_key_value_heads": 8}, "ministral": {"head_dim": 64},
         "hunyuan_v1_dense": {"head_dim": 64}, "hunyuan_v1_moe": {"head_dim": 64},
         "helium": {"num_key_value_heads": 8, "head_dim": 64}, "bamba": {"mamba_n_heads": 64, "mamba_d_state": 64},
         "falcon_h1": {"mamba_n_heads": 64, "mamba_d_head": 64, "mamba_d_ssm": 4096, "mamba_rms_norm": True}, "granitemoehybrid": {"mamba_n_heads": 64, "num_experts_per_tok": 4, "shared_intermediate_size": 512},
         "nemotron_h": {"layers_block_type": ["linear_attention", "mlp", "linear_attention", "full_attention", "mlp"] * 4, "mamba_num_heads": 64},
         "gpt_neo": {"attention_types": [[["global", "local"], 4]]}}


def literal(value):
    return json.dumps(value) if not isinstance(value, bool) else str(value).lower()


def fields(cls):
    """Name and default of what the class itself declares; tables of its own as a.b."""
    own = {}
    whole = cls()
    for name, field in cls.__dataclass_fields__.items():
        value = field.default
        if name in PreTrainedConfig.__dataclass_fields__ and name != "tie_word_embeddings":
            continue
        if name in ("attn_config", "ffn_config"):
            own.update({f"{name}.{key}": v for key, v in fields(type(getattr(whole, name))).items()})
        elif isinstance(value, (bool, int, float, str)):
            own[name] = value
    own["tie_word_embeddings"] = bool(getattr(whole, "tie_word_embeddings", True))
    return own


def speaks(name, rules):
    fits = lambda p: name.endswith(p[1:]) if p[0] == "*" else name.startswith(p[:-1]) if p[-1] == "*" else name == p
    return any(part in name for part in rules["speaking"]) and not any(fits(p) for p in rules["without_effect"])


def asked_names(rules):
    return RULES | {name for kind in ("need", "may") for group in rules[kind].values() for names in flat(group) for name in names}


def flat(group):
    for value in group.values():
        yield from flat(value) if isinstance(value, dict) else [value]


def class_of(kind):
    return CONFIG_MAPPING[SAME_AS.get(kind, kind)]


def defaults_of(kind, rules):
    if kind in BY_HAND:
        return BY_HAND[kind]
    names = asked_names(rules)
    own = {k: v for k, v in fields(class_of(kind)).items() if k in names or speaks(k, rules)}
    return own | COMPUTED.get(kind, {})


def untied_wholes():
    """Models of several parts that do not tie the logits of their text model, where neither part says so."""
    for kind in sorted(CONFIG_MAPPING.keys()):
        try:
            names = CONFIG_MAPPING[kind].__dataclass_fields__
            if "text_config" in names and names["tie_word_embeddings"].default is False:
                yield kind
        except (ImportError, AttributeError, KeyError):
            continue


def key_names(kind, rules):
    """A name in files for each size that the type needs."""
    of = next(t for t in rules["type"] if kind in t["names"])
    for group in of["keys"]:
        for key, names in paths(rules["need"].get(group, {})):
            yield key, names


def paths(group, before=""):
    for name, value in group.items():
        if isinstance(value, dict):
            yield from paths(value, before + name + ".")
        else:
            yield before + name, value


def minimal(kind, rules):
    """A file that states sizes only, under the names that the class has."""
    cls = class_of(kind)
    known = set(cls.__dataclass_fields__) | set(getattr(cls, "attribute_map", {}))
    file = {"model_type": kind}
    for key, names in key_names(kind, rules):
        name = next((n for n in names if n.split(".")[0] in known), names[0])
        if "." in name:
            file.setdefault(name.split(".")[0], {})[name.split(".")[1]] = SIZES[key]
        else:
            file[name] = SIZES[key]
    return file | EXTRA.get(kind, {})


def tied(config):
    return bool(getattr(config, "tie_word_embeddings", True))


def built(file):
    stated = {k: v for k, v in file.items() if k != "model_type"}
    config = class_of(file["model_type"])(**stated)
    if hasattr(config, "pad_token_id"):
        config.pad_token_id = 0
    with torch.device("meta"):
        try:
            model, head = AutoModelForCausalLM.from_config(config), 0
        except ValueError:  # the text part of a larger model, without its logits
            model, head = AutoModel.from_config(config), 0 if tied(config) else config.vocab_size * config.hidden_size
    weights = {id(p): p.numel() for p in model.parameters()}
    kinds = getattr(config, "layer_types", None) or []
    kinds = kinds or getattr(config, "attention_layers", [])
    windows = sum(k in ("sliding_attention", "chunked_attention", "local") for k in kinds)
    window = getattr(config, "sliding_window", None) or 0
    if not kinds and window:
        windows = config.num_hidden_layers
    return sum(weights.values()) + head, windows, tied(config)


def main():
    text = open(HUB, encoding="utf-8").read().split(MARK)[0]
    rules = tomllib.loads(text)
    kinds = [name for t in rules["type"] for name in t["names"]]
    untied = [kind for kind in untied_wholes() if kind not in kinds]
    lines = [MARK, f"# (transformers {transformers.__version__}, models/TYPE/configuration_TYPE.py; those without such a class by hand there):",
             "# what a file that leaves a key out means. Sizes hold where a multimodal model's file states some of its text model's.", "[defaults]", f"untied_wholes = {json.dumps(untied)}"]
    rows, skipped = [], []
    for kind in kinds:
        try:
            own = defaults_of(kind, rules)
        except KeyError:
            skipped.append(kind)
            continue
        lines.append(f"{json.dumps(kind) if not re.fullmatch('[A-Za-z0-9_-]+', kind) else kind} = {{ "
                     + ", ".join(f"{name} = {literal(own[name])}" for name in sorted(own)) + " }")
        if kind in BY_HAND or "text_config" in class_of(kind).__dataclass_fields__:
            continue
        file = minimal(kind, rules)
        try:
            rows.append((kind, *built(file), json.dumps(file)))
        except Exception as error:  # a class that cannot be built from sizes alone
            skipped.append(f"{kind}: {type(error).__name__} {error}"[:150])
    open(HUB, "w", encoding="utf-8").write(text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n")
    old = {}
    if os.path.exists(COUNTS):
        old = {row["type"]: row for row in csv.DictReader(line for line in open(COUNTS, encoding="utf-8") if line[0] != "#")}
    with open(COUNTS, "w", encoding="utf-8", newline="") as out:
        out.write(f"# Weights of the models that transformers {transformers.__version__} builds on PyTorch's meta device from files that state sizes\n"
                  "# only, layers with windows and whether logits and embedding are one table (scripts/hub-defaults.py). `apart`: by how many\n"
                  "# weights the count of stepcast differs, and why.\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["type", "parameters", "windows", "tied", "apart", "why", "config"])
        for kind, count, windows, tied, file in rows:
            was = old.get(kind, {})
            writer.writerow([kind, count, windows, str(tied).lower(), was.get("apart", 0), was.get("why", ""), file])
    print("left out:", *skipped, sep="\n  ", file=sys.stderr)


if __name__ == "__main__":
    main()
