"""The comparison of tests/golden/real_model.sh, which says what it compares and makes the environment it needs."""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADRACE, MODEL = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
CONTINUATION = 24
TIE = 1e-3  # greedy tokens are compared up to the step whose two best logits are closer
# Sums of a real model's size in two orders; a mistake in a trait shows as 0.1 and more.
TOLERANCE = 5e-3
ROWS = 256  # of logits at a time
# Gemma's turns; any template serves, since transformers renders the same one.
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
            "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")
CHATS = [
    [{"role": "user", "content": "Name three rivers of Europe."}],
    [{"role": "user", "content": "What is 12 times 12?"}, {"role": "assistant", "content": "144."},
     {"role": "user", "content": "And 13 times 13? Explain it in one sentence."}],
]


def prompts(tokenizer, window, context):
    """Texts of this tree, cut to lengths around the window and well beyond it."""
    text = (ROOT / "ARCHITECTURE.md").read_text() + (ROOT / "README.md").read_text()
    ids = tokenizer(text)["input_ids"]
    lengths = [7, 100, window - 1, window + 1, 3 * window + 100]
    return [ids[:1] + ids[1 + 37 * i:][:n - 1] for i, n in enumerate(lengths) if n + CONTINUATION <= context]


def score_request(ids):
    return {"prompt": ids, "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}


def greedy(where):
    return {**where, "max_tokens": CONTINUATION, "temperature": 0, "ignore_eos": True, "return_token_ids": True}


def run_job(requests, work, ranks):
    (work / "requests.jsonl").write_text("".join(json.dumps(r) + "\n" for r in requests))
    output = work / f"answers{ranks}.jsonl"
    subprocess.run(["mpirun", "-n", str(ranks), HEADRACE, "generate", "--model", str(MODEL), "--input",
                    str(work / "requests.jsonl"), "--output", str(output), "--dtype", "float32", "--chat-template",
                    str(work / "chat.jinja"), "--generation-config", "none", "--max-model-len", "4096",
                    "--kv-cache-memory-bytes", "512MiB"], check=True)
    return output.read_text()


@torch.no_grad()
def log_probabilities(model, ids):
    """Of ids[1:], each given those before it."""
    hidden = model.model(torch.tensor([ids]), use_cache=False).last_hidden_state[0]
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    result = []
    for at in range(0, len(ids) - 1, ROWS):
        logits = model.lm_head(hidden[at:min(at + ROWS, len(ids) - 1)])
        if cap:
            logits = cap * torch.tanh(logits / cap)
        wanted = torch.tensor(ids[at + 1:at + 1 + len(logits)])
        result += logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0].tolist()
    return result


@torch.no_grad()
def continuation(model, ids):
    """Greedy tokens, and how many of them no tie decides."""
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False, num_beams=1,
                         max_new_tokens=CONTINUATION, pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    tokens = out.sequences[0, len(ids):].tolist()
    for step, logits in enumerate(out.logits):
        best = logits[0].topk(2).values
        if best[0] - best[1] < TIE:
            return tokens, step
    return tokens, len(tokens)


def compare_greedy(model, ids, choice, name):
    tokens, clear = continuation(model, ids)
    same = choice["token_ids"][:clear] == tokens[:clear]
    print(f"{name:34} {clear:3} greedy tokens {'equal' if same else 'DIFFER'}")
    return same


def main():
    tokenizer = AutoTokenizer.from_pretrained(MODEL.parent, gguf_file=MODEL.name)
    model = AutoModelForCausalLM.from_pretrained(MODEL.parent, gguf_file=MODEL.name, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    model.generation_config.eos_token_id = None  # continuations go on
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) or 512
    texts = prompts(tokenizer, window, min(config.max_position_embeddings, 4096))
    requests = [score_request(ids) for ids in texts] + [greedy({"prompt": ids}) for ids in texts]
    requests += [greedy({"messages": chat}) for chat in CHATS]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "chat.jinja").write_text(TEMPLATE)
        output = run_job(requests, work, 1)
        same_bytes = run_job(requests, work, 2) == output
    print(f"1 rank and 2 stages: {'the same bytes' if same_bytes else 'DIFFERENT bytes'}; window {window}")
    good = [same_bytes]
    bodies = [json.loads(line)["response"]["body"] for line in output.splitlines()]
    for ids, body in zip(texts, bodies):
        ours = body["choices"][0]["logprobs"]["token_logprobs"][1:len(ids)]
        theirs = log_probabilities(model, ids)
        most = max((abs(a - b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
        good.append(most < TOLERANCE)
        print(f"prompt of {len(ids):4} tokens: log-probabilities differ by at most {most:.2g}")
    for ids, body in zip(texts, bodies[len(texts):]):
        good.append(compare_greedy(model, ids, body["choices"][0], f"prompt of {len(ids):4} tokens:"))
    for chat, body in zip(CHATS, bodies[2 * len(texts):]):
        rendered = tokenizer.apply_chat_template(chat, chat_template=TEMPLATE, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        same_prompt = body.get("prompt_token_ids", ids) == ids
        good.append(same_prompt and compare_greedy(model, ids, body["choices"][0], f"chat of {len(ids):4} tokens:"))
    sys.exit(0 if all(good) else 1)


main()
