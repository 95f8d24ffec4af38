"""The files of requests. Prompts have exact numbers of tokens (make_requests.awk), outputs too, since no one may stop early."""
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess

BENCH = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Workload:
    meaning: str
    count: int
    variables: dict  # of make_requests.awk
    longest_first: bool = False
    counts_prompt: bool = False  # whether the rate to look at is that of prompt and output tokens together


SKEWED = {"fewest_output_tokens": 8, "output_tokens": 512}
WORKLOADS = {
    "W1": Workload("prompts of 32 to 256 tokens, 128 out", 128, {}),
    "W2": Workload("prompts of 1,024 tokens, 16 out", 32, {"shortest": 1024, "longest": 1024, "output_tokens": 16},
                   counts_prompt=True),
    "W3": Workload("prompts of 32 to 256 tokens, 8 to 512 out, skewed", 128, SKEWED),
    "W3-sorted": Workload("W3 with the longest outputs first", 128, SKEWED, longest_first=True),
}


@dataclasses.dataclass(frozen=True)
class RequestFile:
    path: pathlib.Path
    digest: str
    num_requests: int
    prompt_tokens: int
    output_tokens: int


def write_requests(name, fraction, directory):
    """The workload's file with that fraction of its requests, the same every time."""
    workload = WORKLOADS[name]
    count = max(1, round(workload.count * fraction))
    variables = {"count": count} | workload.variables
    command = ["awk", *(f"-v{key}={value}" for key, value in variables.items()), "-f", BENCH / "make_requests.awk"]
    lines = subprocess.run([*command, BENCH / "words.txt"], check=True, capture_output=True, text=True).stdout.splitlines()
    requests = [json.loads(line) for line in lines]
    outputs = [request["max_tokens"] for request in requests]
    # A word or a full stop is a token (make_requests.awk).
    prompt_tokens = sum(len(re.findall(r"\w+|\.", request["prompt"])) for request in requests)
    if workload.longest_first:
        lines = [line for _, line in sorted(zip(outputs, lines), key=lambda pair: -pair[0])]
    text = "".join(line + "\n" for line in lines)
    path = directory / f"{name}-{count}.jsonl"
    path.write_text(text)
    return RequestFile(path, hashlib.sha256(text.encode()).hexdigest()[:12], count, prompt_tokens, sum(outputs))
