"""Writes the golden files of the chat template tests with jinja2, in the environment transformers gives it.

    python make_goldens.py TEMPLATES OUT

TEMPLATES: the folder of *.jinja beside this script. OUT: tests/data/chat.
Writes OUT/conversations.json (the contexts), OUT/templates.json (what each template makes of each context) and
OUT/constructs.json (many small templates over one context).
"""

import copy
import datetime
import json
import pathlib
import sys
import warnings

from transformers.utils import chat_template_utils

from golden_constructs import CONTEXT, EXPRESSIONS, STATEMENTS

NOW_S = 1732000000  # 2024-11-19 07:06:40


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW_S, datetime.timezone.utc).replace(tzinfo=None)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says what the weather is.\nNow.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city, e.g. Köln & \"Bonn\""},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"]},
                "parts": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
NOTHING = {"type": "function", "function": {"name": "ping", "description": "Ping <b>", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    system = {"role": "system", "content": "  Be brief. /no_think  "}
    user = {"role": "user", "content": "What is 2 + 2?"}
    answer = {"role": "assistant", "content": " 4 "}
    yield "user", [user], {}
    yield "system_user", [system, user], {"enable_thinking": False}
    yield "multi_turn", [system, user, answer, {"role": "user", "content": "And\n3 + 3?\n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n6"}], {}
    yield "tools", [
        user,
        {"role": "assistant", "content": None, "tool_calls": [call("get_weather", {"city": "Köln", "days": 2, "parts": [1.0, 0.5, 1e20]}, "abcdefghi")]},
        {"role": "tool", "content": "{\"sky\": \"grey\"}", "tool_call_id": "abcdefghi", "name": "get_weather"},
    ], {"tools": [WEATHER, NOTHING]}
    yield "two_calls", [
        system,
        user,
        {"role": "assistant", "content": "I look.", "reasoning_content": "two calls", "tool_calls": [call("get_weather", {"city": "a'b\"c"}, "123456789"), call("ping", {}, "987654321")]},
        {"role": "tool", "content": "1", "tool_call_id": "123456789"},
        {"role": "tool", "content": "2", "tool_call_id": "987654321"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks"},
    ], {"tools": [WEATHER]}
    yield "parts", [
        {"role": "system", "content": [{"type": "text", "text": "Sys"}]},
        {"role": "user", "content": [{"type": "text", "text": " one "}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "ok"},
    ], {}
    yield "empty_and_special", [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "<|im_end|>{{ 7 * 7 }}{% raw %}\\n'\"<&>"},
        {"role": "user", "content": "naïve 日本語 🙂 \u00a0\u200b ß ǆ İ Σ\tend\r\n"},
    ], {"bos_token": "", "documents": [{"title": "T", "text": "D1", "n": 3}, {"title": "U", "text": "D2"}]}
    yield "wrong_order", [{"role": "assistant", "content": "first"}, system, {"role": "critic", "content": "no", "metadata": "m"}], {"documents": [], "thinking": True, "controls": {"length": "short"}, "reasoning_effort": "high"}


def contexts():
    for name, messages, extra in conversations():
        for prompt in (True, False):
            context = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": prompt,
                       "bos_token": "<s>", "eos_token": "</s>", **extra}
            yield f"{name}{'+' if prompt else '-'}", context


def outcome(source, context):
    """{"output"}, {"raised": message of raise_exception}, {"undefined": message}, {"error": class} or {"refused": class}."""
    try:
        template = chat_template_utils._compile_jinja_template(source)
    except Exception as error:
        return {"refused": type(error).__name__}
    try:
        return {"output": template.render(**copy.deepcopy(context))}
    except Exception as error:
        name = type(error).__name__
        if name == "TemplateError":
            return {"raised": str(error)}
        if name in ("UndefinedError", "SecurityError"):
            return {"undefined": str(error)}
        return {"error": name}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    warnings.filterwarnings("ignore")
    templates, out = map(pathlib.Path, sys.argv[1:])
    chat_template_utils.datetime = FixedDatetime
    all_contexts = dict(contexts())
    write(out / "conversations.json", {"now_s": NOW_S, "contexts": all_contexts})
    rendered = {}
    for path in sorted(templates.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        rendered[path.stem] = {name: outcome(source, context) for name, context in all_contexts.items()}
    write(out / "templates.json", rendered)
    sources = ["{{ " + expression + " }}" for expression in EXPRESSIONS] + STATEMENTS
    write(out / "constructs.json", {"now_s": NOW_S, "context": CONTEXT,
                                    "cases": [[source, outcome(source, CONTEXT)] for source in sources]})


main()
