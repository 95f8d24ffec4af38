"""Tiny byte-level BPE tokenizers of the families that the golden checkpoints stand for."""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

# A few hundred distinct words in several languages: enough for merges that cross no word boundary,
# of several lengths, and of multi-byte characters.
CORPUS = """
The river carries small stones to the sea, and the sea carries them back to the shore.
A model reads a prompt and writes one token after another; every token looks at those before it.
She counted 12 boats, 34 birds and 5678 waves before the rain came. It's late, we'll go, they've gone.
When two trains leave the station at 9:30 and at 10:15, which of them arrives first?
def add(a, b):
    return a + b
for (int i = 0; i < 10; ++i) { sum += values[i]; }
Der Fluss trägt kleine Steine ins Meer, und das Meer bringt sie zurück an die schöne Küste.
La rivière porte de petites pierres à la mer; où va l'été quand l'hiver est arrivé?
El río lleva piedras pequeñas al mar. ¿Dónde está el niño? ¡Mañana será otro día!
Река несёт камни в море, а море несёт их обратно. Привет, мир! 川は小さな石を海へ運ぶ。海は石を返す。
The quick answer, the long answer, and the answer nobody wanted: 42. The end of the story is the start.
"""

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if loop.first and message['role'] != 'system' %}"
    "{{- '<|im_start|>system\\nYou answer briefly.<|im_end|>\\n' }}"
    "{%- endif %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def pre_tokenizer(family):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if family == "gpt-2":
        return byte_level
    if family == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if family == "llama-bpe":
        return pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    raise ValueError(family)


def train(family, vocab_size, add_bos):
    """Specials first, then bytes, then merges, as SmolLM2's vocabulary is ordered."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(family)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS.splitlines(keepends=True),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=SPECIALS,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {vocab_size}")
    if add_bos:
        bos = SPECIALS[0]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, 0)]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def save(tokenizer, folder, merges_as_strings=False, template_file=False):
    """merges_as_strings: the form tokenizers < 0.20 wrote. template_file: chat_template.jinja."""
    folder = Path(folder)
    data = json.loads(tokenizer.to_str())
    if merges_as_strings:
        data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    write_json(folder / "tokenizer.json", data, indent=None)
    config = {
        "bos_token": SPECIALS[0],
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[3],
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 256,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {
            str(i): {"content": text, "lstrip": False, "normalized": False, "rstrip": False,
                     "single_word": False, "special": True}
            for i, text in enumerate(SPECIALS)
        },
    }
    if template_file:
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    else:
        config["chat_template"] = CHAT_TEMPLATE
    write_json(folder / "tokenizer_config.json", config)


def write_json(path, data, indent=2):
    separators = (",", ":") if indent is None else None
    text = json.dumps(data, ensure_ascii=False, indent=indent, separators=separators)
    path.write_text(text + "\n", encoding="utf-8")
