#include "model/tokenizer/gguf_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tokenizer/scanners.h"
#include "model/tokenizer/shown_text.h"

namespace headrace {
namespace {

using nlohmann::json;

json split(std::string_view expression) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", expression}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

json sequence(std::vector<json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

json splits(const std::vector<std::string_view>& expressions) {
  std::vector<json> steps;
  steps.reserve(expressions.size() + 1);
  for (const std::string_view expression : expressions) steps.push_back(split(expression));
  steps.push_back(byte_level(false));
  return sequence(std::move(steps));
}

json gpt2() {
  return byte_level(true);
}

// Every digit by itself, then GPT-2's words.
json digits_gpt2() {
  return sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
}

json llama3() {
  return splits({kLlama3Expression});
}
json qwen2() {
  return splits({kQwen2Expression});
}
json qwen35() {
  return splits({kQwen35Expression});
}
json gpt4o() {
  return splits({kO200kExpression});
}

json tekken() {
  return splits(
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"});
}

json deepseek_llm() {
  return splits(
      {"[\r\n]",
       "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-"
       "ՖႠ-"
       "ჅᎠ-"
       "Ᏽᏸ-"
       "ᏽᲐ-"
       "ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕ"
       "Ἐ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
       "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-"
       "Ｚａ-"
       "ｚ𐐀-"
       "𐑏𐒰-"
       "𐓓𐓘-"
       "𐓻𐲀-"
       "𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
       "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"});
}

json deepseek_coder() {
  return splits({"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"});
}

json deepseek_v3() {
  return splits(
      {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"});
}

json falcon() {
  return sequence({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                   split(kGpt2Expression),
                   split("[0-9][0-9][0-9]"),
                   byte_level(false)});
}

json unnamed() {
  return splits({R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Expression, "\\p{N}+", "[0-9][0-9][0-9]"});
}

struct Rules {
  std::vector<std::string_view> names;
  json (*pre_tokenizer)();
  GgufRules rules;
};

const std::vector<Rules>& known_rules() {
  static const std::vector<Rules> known = {
      {{"default"}, unnamed, {}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "mellum",
        "gigachat", "a.x-4.0"},
       gpt2,
       {}},
      {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"}, digits_gpt2, {}},
      {{"command-r"}, digits_gpt2, {.nfc = true}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2"},
       llama3,
       {.ignore_merges = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, llama3, {}},
      {{"qwen2", "deepseek-r1-qwen", "megrez"}, qwen2, {.nfc = true}},
      {{"stablelm2", "hunyuan", "grok-2"}, qwen2, {}},
      {{"qwen35"}, qwen35, {.nfc = true}},
      {{"gpt-4o", "llama4"}, gpt4o, {}},
      {{"tekken"}, tekken, {.ignore_merges = true, .add_bos = true}},
      {{"deepseek-llm"}, deepseek_llm, {}},
      {{"deepseek-coder"}, deepseek_coder, {}},
      {{"deepseek-v3", "deepseek-r1", "hunyuan-dense"}, deepseek_v3, {}},
      {{"falcon"}, falcon, {}},
  };
  return known;
}

const Rules& find_rules(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Rules& rules : known_rules()) {
    if (std::find(rules.names.begin(), rules.names.end(), name) != rules.names.end()) return rules;
    names.insert(names.end(), rules.names.begin(), rules.names.end());
  }
  throw std::invalid_argument(fmt::format("tokenizer.ggml.pre is {}; accepted: {}",
                                          shown_text(name), fmt::join(names, ", ")));
}

}  // namespace

GgufRules gguf_rules(std::string_view name) {
  return find_rules(name).rules;
}

json gguf_pre_tokenizer(std::string_view name) {
  return find_rules(name).pre_tokenizer();
}

}  // namespace headrace
