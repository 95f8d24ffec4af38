// Tokenizers, chat templates and request lines.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "model/chat/chat_prompt.h"
#include "model/chat/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"
#include "runtime/job/request_parser.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/model/checkpoint/model_files.h"
#include "tests/model/tokenizer/small_tokenizer.h"
#include "tests/runtime/job/fake_parser_config.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;
using model_files::read_file;
using model_files::TempDirectory;
using model_files::write_file;

const std::filesystem::path kTokenizers = "tests/data/tokenizer";

// Loads, encodes a text of many kinds of characters, and decodes ids whole and one by one.
bool load_and_use(const std::filesystem::path& model) {
  try {
    const auto tokenizer = Tokenizer::load(model);
    std::vector<TokenId> ids =
        tokenizer->encode("  Hello <s>world</s>, it's 12345\n\n\té😀\u3000中文 e\u0301 <mask>x ");
    for (TokenId id = -1; id <= tokenizer->vocab_size(); id += 1 + tokenizer->vocab_size() / 50) {
      ids.push_back(id);
    }
    const std::string text = tokenizer->decode(ids, {.skip_special_tokens = ids.size() % 2 == 0});
    if (find_invalid_utf8(text) != std::string_view::npos) {
      throw std::runtime_error("decoded to what is not UTF-8");
    }
    IncrementalDecoder decoder(tokenizer, {.skip_special_tokens = ids.size() % 2 == 0});
    std::string pieces;
    for (const TokenId id : ids) pieces += decoder.push(id);
    if (pieces + decoder.finish() != text) throw std::runtime_error("a stream decodes differently");
    return true;
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
    return false;
  }
}

FuzzTarget tokenizer_target(const std::string& file, bool model_is_file) {
  const auto directory = std::make_shared<const TempDirectory>();
  const auto path = directory->path() / file;
  const auto model = model_is_file ? path : directory->path();
  FuzzTarget target;
  // Ids up to 2^20 are taken from a file of any size: 8 bytes each, in a vector that may double.
  target.buffer_bytes = std::size_t{20} << 20;
  target.bytes_per_byte = 64;
  target.accepts = [directory, path, model](const std::string& input) {
    write_file(path, input);
    return load_and_use(model);
  };
  return target;
}

std::vector<Json> conversations() {
  const Json parsed = Json::parse(read_file("tests/data/chat/conversations.json"));
  return {parsed["contexts"].begin(), parsed["contexts"].end()};
}

// Text, or one of the two kinds of error.
bool renders(const std::string& source, const Json& context) {
  ChatTemplate::Limits limits;
  limits.output_bytes = 1U << 20;
  limits.steps = 20000;
  try {
    ChatTemplate(source, "t").render(context, 1732000000, limits);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  } catch (const TemplateError&) {
    return false;
  }
}

// An answerable request or an error in UTF-8, and the same custom_id from both readers.
bool parses(const RequestParser& parser, const std::string& text) {
  InputLine line;
  line.number = 1;
  line.text = text;
  const ParsedLine parsed = parser.parse(line);
  if (parsed.custom_id != peek_custom_id(text)) throw std::runtime_error("two custom_ids");
  if (const auto* error = std::get_if<LineError>(&parsed.result)) {
    if (error->message.empty() || find_invalid_utf8(error->message) != std::string_view::npos) {
      throw std::runtime_error("an error that cannot be written");
    }
    return false;
  }
  if (std::get<Request>(parsed.result).num_choices() < 1) throw std::runtime_error("no choices");
  return true;
}

}  // namespace

FuzzTarget tokenizer_json_target() {
  FuzzTarget target = tokenizer_target("tokenizer.json", false);
  target.material.sound = {small_tokenizer().dump()};
  for (const char* name : {"llama2", "mistral", "unigram_bytes", "flags", "behaviors", "bert"}) {
    target.material.sound.push_back(read_file(kTokenizers / name / "tokenizer.json"));
  }
  target.material.words = {"null",
                           "true",
                           "\"type\":\"Sequence\"",
                           "\"Replace\"",
                           "\"ByteLevel\"",
                           "{\"Regex\":\"(a|b)*\"}",
                           "\"Strip\"",
                           "\"Metaspace\"",
                           "\"Unigram\"",
                           "[]",
                           "{}",
                           "\\u0000",
                           "\\p{L}",
                           "(?:",
                           "*+"};
  return target;
}

FuzzTarget gguf_tokenizer_target() {
  FuzzTarget target = tokenizer_target("tiny.gguf", true);
  for (const char* name : {"sentencepiece.gguf", "smollm.gguf", "deepseek_coder.gguf"}) {
    target.material.sound.push_back(read_file(kTokenizers / name));
  }
  target.material.words = {"tokenizer.ggml.", "scores", "merges", "llama", "gpt2"};
  return target;
}

FuzzTarget sentencepiece_target() {
  FuzzTarget target = tokenizer_target("tokenizer.model", false);
  for (const char* name : {"spm_llama", "spm_own_bpe", "spm_own_unigram"}) {
    target.material.sound.push_back(read_file(kTokenizers / name / "tokenizer.model"));
  }
  target.material.words = {std::string("\x18\x04", 2), std::string("\x18\x02", 2),
                           std::string("\x12\x00", 2), std::string("\x1A\x02\x18\x00", 4),
                           std::string("\xC0\x02\xFF\x01", 4)};
  return target;
}

FuzzTarget template_target() {
  FuzzTarget target;
  target.bytes_per_byte = 1024;
  for (const auto& file : std::filesystem::directory_iterator("tests/model/chat/templates")) {
    target.material.sound.push_back(read_file(file.path()));
  }
  std::sort(target.material.sound.begin(), target.material.sound.end());
  const Json constructs = Json::parse(read_file("tests/data/chat/constructs.json"));
  for (const Json& entry : constructs["cases"]) {
    target.material.sound.push_back(entry[0].get<std::string>());
  }
  target.material.words = {"{%",         "%}",        "{{",       "}}",     "{#",       "#}",
                           "-",          "+",         "(",        ")",      "[",        "]",
                           "'",          "\"",        "|",        ".",      "if ",      "for x in ",
                           "endif",      "endfor",    "else",     "set ",   "loop",     "recursive",
                           " is ",       "not ",      "in ",      "*",      "**",       "~",
                           "%",          ":",         ",",        "0",      "-1",       "1e9",
                           "none",       "messages",  "range(9)", "tojson", "caller()", "{% raw %}",
                           "macro m(x)", "call m(1)", "\n",       "é",      "\\x"};
  target.accepts = [contexts = conversations()](const std::string& input) {
    return renders(input, contexts[std::hash<std::string>{}(input) % contexts.size()]);
  };
  return target;
}

FuzzTarget request_line_target() {
  FuzzTarget target;
  target.bytes_per_byte = 64;
  target.material.sound = {
      R"({"custom_id":"a\u00e9","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":[{"type":"text","text":"\ud83d\ude00"}]}],"max_tokens":5,"logprobs":true,"top_logprobs":2,"tools":[{"a":1}],"seed":7}})",
      R"({"custom_id":"b","prompt":[[97,98],"xyz"],"n":2,"stop":["a","b"],"logit_bias":{"97":1.5},"temperature":0.7,"echo":true,"stop_token_ids":[3]})",
      R"({"custom_id":null,"prompt":"text","min_p":0.1,"custom_id":"c","response_format":{"type":"text"}})"};
  target.material.words = {"true",     "false",       "null", "\\ud800", "1e999",       "-0",
                           "\"n\":2,", "\"best_of\"", "[[]]", "{}",      "\xEF\xBB\xBF"};
  target.accepts = [parser = std::make_shared<const RequestParser>(fake_parser_config())](
                       const std::string& input) { return parses(*parser, input); };
  return target;
}

}  // namespace headrace
