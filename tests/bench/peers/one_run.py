"""What a run of a peer has in common with that of any other: requests come from a file, answers go into one, and the same
part of the time counts. Runs in the peer's own environment; peers.py starts it.

Loading is everything until the engine could take a request, a first short answer included, because some engines finish
their preparations only then. The wall time covers reading the requests, tokenising, generating, turning tokens into
text, and writing the answers to disk.
"""
import argparse
import json
import os
import time


def read_requests(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def write_answers(path, requests, answers):
    with open(path, "w") as output:
        for request, answer in zip(requests, answers, strict=True):
            output.write(json.dumps({"custom_id": request["custom_id"], "text": answer["text"],
                                     "prompt_tokens": answer["prompt_tokens"],
                                     "completion_tokens": answer["completion_tokens"]}) + "\n")
        output.flush()
        os.fsync(output.fileno())


WARM_UP = [{"custom_id": "warm-up", "prompt": "The", "max_tokens": 4}]


def main(load):
    """load(settings, requests) -> a function from requests to answers, dicts with text, prompt_tokens, completion_tokens."""
    parser = argparse.ArgumentParser()
    for name in ("settings", "requests", "answers", "result"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    begin = time.perf_counter()
    answer = load(json.loads(options.settings), read_requests(options.requests))
    answer(WARM_UP)
    loaded = time.perf_counter()
    requests = read_requests(options.requests)
    answers = answer(requests)
    write_answers(options.answers, requests, answers)
    end = time.perf_counter()
    with open(options.result, "w") as output:
        json.dump({"load_s": loaded - begin, "wall_s": end - loaded,
                   "prompt_tokens": sum(a["prompt_tokens"] for a in answers),
                   "output_tokens": sum(a["completion_tokens"] for a in answers)}, output)
    os._exit(0)  # some engines wait for threads that never end
