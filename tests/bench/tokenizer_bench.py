"""The turns of tests/bench/tokenizer.sh, which says what this measures and makes the environment it needs."""
import argparse
import array
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/model/tokenizer"))
from golden_texts import CORPUS  # noqa: E402

NUM_PROSE, NUM_FOREIGN = 700, 700   # documents of about 2 KB


def documents():
    """Code and documentation of this tree, English prose of random words, and many languages."""
    random.seed(1)
    texts = []
    for name in subprocess.run(["git", "ls-files", "*.cpp", "*.h", "*.md", "*.py", "*.sh"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split():
        text = (ROOT / name).read_text(encoding="utf-8").replace("\0", "")
        texts += [text[i:i + 4000] for i in range(0, len(text), 4000)]
    words = (ROOT / "tests/bench/words.txt").read_text().split()
    for _ in range(NUM_PROSE):
        sentences = [" ".join(random.choices(words, k=random.randint(4, 20))).capitalize() for _ in range(25)]
        texts.append(". ".join(sentences) + ".\n")
    foreign = [line.split() for line in CORPUS if not line.isascii()]
    for _ in range(NUM_FOREIGN):
        line = random.choice(foreign)
        texts.append("\n".join(" ".join(random.sample(line, len(line))) for _ in range(25)))
    random.shuffle(texts)
    return texts


def from_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields

    def value(key):
        return fields["tokenizer.ggml." + key].contents()
    if value("model") != "gpt2" or value("pre") != "smollm":
        sys.exit(f"{path}: only the quickstart's kind of GGUF is known here; give a directory with tokenizer.json")
    tokens = value("tokens")
    merges = [tuple(merge.split(" ")) for merge in value("merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in
                                  zip(tokens, value("token_type")) if kind == gguf.TokenType.CONTROL])
    return tokenizer


class Headrace:
    def __init__(self, program, model, texts, work):
        ids = work / "ids"
        (work / "documents").write_bytes(b"".join(text.encode() + b"\0" for text in texts))
        self.process = subprocess.Popen([program, model, work / "documents", ids], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.round()
        self.ids = array.array("i", ids.read_bytes())

    def round(self):
        print("round", file=self.process.stdin, flush=True)
        tokens, seconds = self.process.stdout.readline().split()
        return int(tokens) / float(seconds)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class HuggingFace:
    def __init__(self, model, texts):
        model = pathlib.Path(model)
        self.tokenizer = from_gguf(model) if model.is_file() else Tokenizer.from_file(str(model / "tokenizer.json"))
        self.texts = texts
        self.ids = array.array("i")
        for text in texts:
            self.ids.extend(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def round(self):
        """Without offsets, which encode_batch_fast leaves out; one after the other, TOKENIZERS_PARALLELISM=false."""
        begin = time.perf_counter()
        encodings = self.tokenizer.encode_batch_fast(self.texts, add_special_tokens=False)
        seconds = time.perf_counter() - begin
        return sum(len(e) for e in encodings) / seconds


def row(name, rates):
    middle = statistics.median(rates)
    print(f"{name:12}{middle / 1e6:8.2f} M tokens/s  ({min(rates) / 1e6:.2f} to {max(rates) / 1e6:.2f})")
    return middle


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "model", "work"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    texts = documents()
    ours = Headrace(options.program, options.model, texts, pathlib.Path(options.work))
    theirs = HuggingFace(options.model, texts)
    if ours.ids != theirs.ids:
        sys.exit("the ids differ")
    size = sum(len(text.encode()) for text in texts)
    print(f"{len(texts)} documents, {size / 1e6:.1f} MB, {len(ours.ids)} tokens, the same ids; one core, {options.rounds} rounds")
    theirs.round()
    rates = {"Headrace": [], "tokenizers": []}
    for i in range(options.rounds):
        turns = [("Headrace", ours), ("tokenizers", theirs)]
        for name, side in turns if i % 2 == 0 else reversed(turns):
            rates[name].append(side.round())
    ours.close()
    print(f"ratio       {row('Headrace', rates['Headrace']) / row('tokenizers', rates['tokenizers']):8.2f}")


if __name__ == "__main__":
    main()
