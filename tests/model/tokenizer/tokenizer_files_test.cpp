// What stands beside tokenizer.json, and files that are broken, odd or hostile.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/model/tokenizer/small_tokenizer.h"

namespace headrace {
namespace {

using model_files::GgufWriter;
using nlohmann::json;
using Ids = std::vector<TokenId>;

TEST(HuggingFaceTokenizer, SpecialTextsComeFromTheConfigurationThenTheMap) {
  TokenizerDirectory directory(small_tokenizer());
  directory.write("tokenizer_config.json",
                  R"({"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"},
                      "unk_token": null, "cls_token": "missing", "add_prefix_space": false})");
  directory.write("special_tokens_map.json",
                  R"({"eos_token": "other", "pad_token": {"content": "abc"}})");
  const auto tokenizer = directory.load();
  EXPECT_EQ(tokenizer->special_text("bos_token"), "<s>");
  EXPECT_EQ(tokenizer->special_text("eos_token"), "</s>");
  EXPECT_EQ(tokenizer->special_text("pad_token"), "abc");
  EXPECT_EQ(tokenizer->special_text("unk_token"), "");
  EXPECT_EQ(tokenizer->special_text("cls_token"), "missing");
  EXPECT_EQ(tokenizer->bos_id(), 7);
  EXPECT_EQ(tokenizer->eos_id(), 8);
  // A token with a role is special, and found inside of words.
  EXPECT_TRUE(tokenizer->is_special(5));
  EXPECT_EQ(tokenizer->encode("aabca"), (Ids{0, 5, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{0, 5}, {.skip_special_tokens = true}), "a");
}

TEST(HuggingFaceTokenizer, WithoutSideFilesThereAreNoRolesAndTemplates) {
  const auto tokenizer = TokenizerDirectory(small_tokenizer()).load();
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->special_text("bos_token"), "");
  EXPECT_TRUE(tokenizer->chat_templates().empty());
}

TEST(HuggingFaceTokenizer, ChatTemplatesAreOneOrNamedAndFilesOverrideThem) {
  TokenizerDirectory directory(small_tokenizer());
  directory.write("tokenizer_config.json", R"({"chat_template": "one"})");
  ASSERT_EQ(directory.load()->chat_templates().size(), 1U);
  EXPECT_EQ(directory.load()->chat_templates()[0].name, "default");
  EXPECT_EQ(directory.load()->chat_templates()[0].source, "one");
  directory.write("tokenizer_config.json",
                  R"({"chat_template": [{"name": "default", "template": "a"},
                                        {"name": "rag", "template": "b"}]})");
  ASSERT_EQ(directory.load()->chat_templates().size(), 2U);
  EXPECT_EQ(directory.load()->chat_templates()[1].name, "rag");
  directory.write("chat_template.jinja", "file");
  std::filesystem::create_directory(directory.path() / "additional_chat_templates");
  directory.write("additional_chat_templates/tool_use.jinja", "tools");
  const auto tokenizer = directory.load();
  ASSERT_EQ(tokenizer->chat_templates().size(), 2U);
  EXPECT_EQ(tokenizer->chat_templates()[0].source, "file");
  EXPECT_EQ(tokenizer->chat_templates()[1].name, "tool_use");
  EXPECT_EQ(tokenizer->chat_templates()[1].source, "tools");
}

void expect_complaint(const TokenizerDirectory& directory, const std::vector<std::string>& parts) {
  const std::string complaint = directory.complaint();
  EXPECT_FALSE(complaint.empty());
  EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
  for (const std::string& part : parts) {
    EXPECT_NE(complaint.find(part), std::string::npos) << complaint << "\nlacks " << part;
  }
}

// pointer: what is replaced by the value, as JSON pointers say it.
void expect_refused(const std::string& pointer, const std::string& value,
                    const std::vector<std::string>& parts) {
  json tokenizer = small_tokenizer();
  tokenizer[json::json_pointer(pointer)] = json::parse(value);
  SCOPED_TRACE(pointer + " = " + value);
  std::vector<std::string> expected = parts;
  expected.emplace_back("tokenizer.json");
  expect_complaint(TokenizerDirectory(tokenizer), expected);
}

TEST(HuggingFaceTokenizer, UnknownTypesAreNamedWithWhatIsAccepted) {
  expect_refused("/normalizer", R"({"type": "Bert"})", {"normalizer.type", "Bert", "NFC"});
  expect_refused("/pre_tokenizer", R"({"type": "UnicodeScripts"})",
                 {"pre_tokenizer.type", "UnicodeScripts", "ByteLevel"});
  expect_refused("/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "Nope"}]})",
                 {"pre_tokenizer.pretokenizers[0].type", "Nope"});
  expect_refused("/post_processor", R"({"type": "Magic"})", {"post_processor.type", "Magic"});
  expect_refused("/decoder", R"({"type": "CTC"})", {"decoder.type", "CTC", "ByteFallback"});
  expect_refused("/model/type", R"("WordPiece")", {"model.type", "WordPiece", "BPE, Unigram"});
  expect_refused("/version", R"("2.0")", {"version", "2.0", "1.0"});
  expect_refused("/model/dropout", "0.5", {"model.dropout", "0.5"});
}

TEST(HuggingFaceTokenizer, VocabulariesAndMergesOfAnotherFormAreNamed) {
  for (const char* vocab :
       {R"("x")", R"({"a": "x"})", R"({"a": [1]})", R"({"a": {}})", R"({"a": 1.5})",
        R"({"a": null})", R"([["a"]])", R"([["a", 1, 2]])", R"([[1, "a"]])", "[1]", "[{}]",
        R"([["a", [1]]])", R"([["a", 1.5]])", "null", "{}", "[]"}) {
    expect_refused("/model/vocab", vocab, {});
  }
  for (const char* merges :
       {R"(["a b c"])", R"(["ab"])", R"([["a"]])", R"([["a", "b", "c"]])", "[1]", R"([["a", 1]])",
        R"([[["a", "b"]]])", "[null]", "[{}]", R"([{"a": "b"}])"}) {
    expect_refused("/model/merges", merges, {"model.merges", "entry 0"});
  }
  expect_refused("/model/merges", "null", {"merges"});
  expect_refused("/model/merges", R"({"a": "b"})", {"merges"});
  expect_refused("/model/merges", R"(["a z"])", {"\"z\" is not in the vocabulary"});
  expect_refused("/model/merges", R"(["c c"])", {"\"cc\" is not in the vocabulary"});
}

TEST(HuggingFaceTokenizer, WrongTypesAndMissingKeysAreNamed) {
  expect_refused("/model/unk_token", "5", {"model.unk_token", "5", "a string"});
  expect_refused("/model/byte_fallback", R"("yes")", {"model.byte_fallback", "true or false"});
  expect_refused("/model", "5", {"model"});
  expect_refused("/added_tokens", "5", {"added_tokens", "a list"});
  expect_refused("/added_tokens/0", R"({"id": 7})", {"added_tokens[0]", "content"});
  expect_refused("/added_tokens/0/special", "1", {"added_tokens[0].special"});
  expect_refused("/pre_tokenizer", R"({"type": "ByteLevel"})",
                 {"pre_tokenizer", "add_prefix_space"});
  expect_refused("/pre_tokenizer", R"({"type": 5})", {"pre_tokenizer.type", "a string"});
  expect_refused("/decoder", "[]", {"decoder", "an object"});
  for (const char* content : {"[]", "5", "null", "{}", R"({"model": {}})", ""}) {
    expect_complaint(TokenizerDirectory(std::string(content)), {"tokenizer.json"});
  }
}

TEST(HuggingFaceTokenizer, IdsThatCannotBeAreRefused) {
  for (const char* id : {"-1", "4000000000", "9223372036854775807"}) {
    expect_refused("/model/vocab/a", id, {"\"a\"", id});
    expect_refused("/added_tokens/0/id", id, {"added_tokens[0].id"});
  }
  expect_refused("/model/vocab/a", "18446744073709551615", {"\"a\""});
  expect_refused("/model/vocab/a", "1", {"same id 1"});
  expect_refused("/added_tokens/0/id", "3", {"added_tokens[0].id", "3", "7"});
  expect_refused("/added_tokens/0/id", "12", {"added_tokens[0].id", "12", "7"});
  expect_refused("/post_processor",
                 R"({"type": "BertProcessing", "sep": ["x", 77], "cls": ["x", 7]})",
                 {"post_processor.sep[1]", "77"});
  expect_refused("/post_processor",
                 R"({"type": "TemplateProcessing", "special_tokens": {},
                     "single": [{"SpecialToken": {"id": "gone", "type_id": 0}}]})",
                 {"single[0].SpecialToken.id", "gone"});
  expect_complaint(TokenizerDirectory(std::string(
                       R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})")),
                   {"\"a\" stands twice"});
}

TEST(HuggingFaceTokenizer, PatternsAndOptionsThatCannotBeAreRefused) {
  const auto split = [](const std::string& pattern, const std::string& behavior) {
    return R"({"type": "Split", "invert": false, "pattern": )" + pattern + R"(, "behavior": ")" +
           behavior + "\"}";
  };
  expect_refused("/pre_tokenizer", split(R"({"Regex": "(a"})", "Isolated"),
                 {"pattern.Regex", "(a"});
  expect_refused("/pre_tokenizer", split(R"({"Regex": "[a[b]]"})", "Isolated"), {"pattern.Regex"});
  expect_refused("/pre_tokenizer", split(R"({"Glob": "*"})", "Isolated"), {"pattern"});
  expect_refused("/pre_tokenizer", split(R"({"String": "a"})", "Sideways"),
                 {"behavior", "Sideways"});
  expect_refused("/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})",
                 {"replacement"});
  expect_refused("/pre_tokenizer",
                 R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "maybe"})",
                 {"prepend_scheme", "maybe", "first"});
  for (const char* charsmap : {"!!!", "//////8=", "AAA", ""}) {
    expect_refused(
        "/normalizer",
        R"({"type": "Precompiled", "precompiled_charsmap": ")" + std::string(charsmap) + "\"}",
        {"precompiled_charsmap"});
  }
  expect_refused("/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
                 {"decoder.start", "-1"});
}

TEST(HuggingFaceTokenizer, DeepNestingAndBrokenJsonEndWithOneLine) {
  const std::string deep(100000, '[');
  expect_complaint(TokenizerDirectory("{\"normalizer\":" + deep), {"64"});
  std::string sequence;
  for (int i = 0; i < 5000; ++i) sequence += R"({"type":"Sequence","normalizers":[)";
  expect_complaint(TokenizerDirectory("{\"normalizer\":" + sequence), {"64"});
  const std::string whole = small_tokenizer().dump();
  for (std::size_t cut = 0; cut < whole.size(); cut += 13) {
    expect_complaint(TokenizerDirectory(whole.substr(0, cut)), {"tokenizer.json"});
  }
  expect_complaint(TokenizerDirectory(std::string("{\"a\": \"\xFF\"}")), {"not JSON"});
}

TEST(HuggingFaceTokenizer, TextsOfAFileStandOnOneLineInMessages) {
  expect_refused("/added_tokens/0", R"({"id": 70, "content": "z\n", "special": true,
                 "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})",
                 {"accepted: 7 for \"z\\n\""});
  expect_refused("/model/merges", R"([["a", "\n"]])", {"\"\\n\" is not in the vocabulary"});
  expect_refused("/model/vocab", R"({"a\tb": -1})", {"\"a\\tb\" has the id -1"});
  expect_refused("/model/vocab", "{\"" + std::string(5000, 'x') + "\": -1}",
                 {"xxx\"... has the id -1"});
}

// A changed byte gives a tokenizer or one std::invalid_argument; nothing else.
TEST(HuggingFaceTokenizer, ChangedBytesNeverCrash) {
  const std::string whole = small_tokenizer().dump();
  const TokenizerDirectory directory(whole);
  for (std::size_t i = 0; i < whole.size(); i += 4) {
    for (const char c : {'0', '"', '{', '-'}) {
      std::string changed = whole;
      changed[i] = c;
      directory.write("tokenizer.json", changed);
      try {
        directory.load()->encode("abc <s> é");
      } catch (const std::invalid_argument&) {
        continue;  // the expected refusal
      }
    }
  }
}

TEST(TokenizerLoad, PathsWithoutTokenizerAreRefused) {
  EXPECT_THROW(Tokenizer::load("/nonexistent"), std::invalid_argument);
  EXPECT_THROW(Tokenizer::load("/nonexistent.gguf"), std::invalid_argument);
  const model_files::TempDirectory empty;
  EXPECT_THROW(Tokenizer::load(empty.path()), std::invalid_argument);
}

GgufWriter small_gguf() {
  GgufWriter writer;
  writer.set_string("tokenizer.ggml.model", "gpt2")
      .set_string("tokenizer.ggml.pre", "smollm")
      .set_strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "</s>"})
      .set_strings("tokenizer.ggml.merges", {"a b"})
      .set_u32("tokenizer.ggml.bos_token_id", 3)
      .set_u32("tokenizer.ggml.eos_token_id", 4);
  return writer;
}

class GgufTokenizer : public testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> load(GgufWriter& writer) const {
    const std::filesystem::path path = directory_.path() / "model.gguf";
    model_files::write_file(path, writer.bytes());
    return Tokenizer::load(path);
  }
  void expect_refused(GgufWriter writer, const std::string& part) const {
    try {
      load(writer);
      FAIL() << "accepted; lacks: " << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("model.gguf"), std::string::npos) << error.what();
    }
  }
  model_files::TempDirectory directory_;
};

TEST_F(GgufTokenizer, RolesAreSpecialWhereTheFileHasNoTypes) {
  GgufWriter writer = small_gguf();
  const auto tokenizer = load(writer);
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->bos_id(), 3);
  EXPECT_EQ(tokenizer->eos_id(), 4);
  EXPECT_EQ(tokenizer->special_text("eos_token"), "</s>");
  EXPECT_TRUE(tokenizer->is_special(3));
  EXPECT_EQ(tokenizer->encode("ab<s>b"), (Ids{2, 3, 1}));
}

TEST_F(GgufTokenizer, BosAndEosAreAddedWhereTheFileSaysSo) {
  GgufWriter writer = small_gguf();
  writer.set_bool("tokenizer.ggml.add_bos_token", true)
      .set_bool("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(load(writer)->encode("ab"), (Ids{3, 2, 4}));
  EXPECT_EQ(load(writer)->encode("ab", {.add_special_tokens = false}), (Ids{2}));
}

TEST_F(GgufTokenizer, ChatTemplatesAreNamed) {
  GgufWriter writer = small_gguf();
  writer.set_string("tokenizer.chat_template", "one")
      .set_string("tokenizer.chat_template.rag", "two");
  const auto tokenizer = load(writer);
  ASSERT_EQ(tokenizer->chat_templates().size(), 2U);
  EXPECT_EQ(tokenizer->chat_templates()[0].name, "default");
  EXPECT_EQ(tokenizer->chat_templates()[1].name, "rag");
  EXPECT_EQ(tokenizer->chat_templates()[1].source, "two");
}

TEST_F(GgufTokenizer, WhatIsMissingOrUnknownIsNamed) {
  expect_refused(GgufWriter(), "tokenizer.ggml.tokens");
  expect_refused(GgufWriter().set_strings("tokenizer.ggml.tokens", {"a"}), "tokenizer.ggml.model");
  expect_refused(small_gguf().set_string("tokenizer.ggml.pre", "martian"), "martian");
  expect_refused(small_gguf().set_string("tokenizer.ggml.model", "bert"), "accepted: gpt2, llama");
  expect_refused(small_gguf().set_string("tokenizer.ggml.model", "llama"), "tokenizer.ggml.scores");
  expect_refused(small_gguf().set_u32("tokenizer.ggml.bos_token_id", 5),
                 "tokenizer.ggml.bos_token_id");
  expect_refused(small_gguf().set_strings("tokenizer.ggml.merges", {"ab"}),
                 "tokenizer.ggml.merges");
  expect_refused(small_gguf().set_strings("tokenizer.ggml.merges", {"a c"}),
                 "not in the vocabulary");
  expect_refused(small_gguf().set_strings("tokenizer.ggml.tokens", {"a", "b", "\xFF"}),
                 "not UTF-8");
  expect_refused(small_gguf().set_strings("tokenizer.ggml.tokens", {}), "tokenizer.ggml.tokens");
}

}  // namespace
}  // namespace headrace
