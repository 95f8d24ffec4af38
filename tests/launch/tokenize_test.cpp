#include "launch/tokenize.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

namespace headrace {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kGoldens = "tests/data/golden";

/// What MODEL is called in the folder of a golden.
std::string model_of(const fs::path& golden) {
  const fs::path gguf = golden / "model.gguf";
  return fs::exists(gguf) ? gguf.string() : golden.string();
}

LineConverter converter_for(TokenizeOptions options) {
  ModelText text =
      load_model_text({.model = options.model, .chat_template = options.chat_template});
  return {std::move(options), std::move(text)};
}

/// The converted line, which must not be an error.
json convert(const LineConverter& converter, const json& line) {
  const auto result = converter.convert(line.dump(), 1);
  EXPECT_FALSE(result.failed) << result.line;
  return json::parse(result.line);
}

std::string error_of(const LineConverter& converter, std::string_view line) {
  const auto result = converter.convert(line, 7);
  const json parsed = json::parse(result.line);
  EXPECT_TRUE(result.failed) << line;
  EXPECT_EQ(parsed.size(), 1U) << result.line;
  return parsed.value("error", "");
}

/// Every golden model: what transformers makes of texts and chats.
class GoldenText : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream file(kGoldens / GetParam() / "expected.json");
    expected_ = json::parse(file);
    options_.model = model_of(kGoldens / GetParam());
  }

  json expected_;
  TokenizeOptions options_;
};

TEST_P(GoldenText, TextsGiveTheIdsOfTransformers) {
  const LineConverter converter = converter_for(options_);
  ASSERT_FALSE(expected_["texts"].empty());
  for (const json& t : expected_["texts"]) {
    EXPECT_EQ(convert(converter, {{"text", t["text"]}}), json({{"ids", t["ids"]}})) << t["text"];
  }
}

TEST_P(GoldenText, IdsGiveTheTextBack) {
  options_.decode = true;
  options_.skip_special_tokens = true;
  const LineConverter converter = converter_for(options_);
  for (const json& t : expected_["texts"]) {
    EXPECT_EQ(convert(converter, {{"ids", t["ids"]}}), json({{"text", t["text"]}}));
  }
}

TEST_P(GoldenText, ChatsGiveTheTextAndIdsOfTransformers) {
  options_.chat = true;
  const LineConverter converter = converter_for(options_);
  ASSERT_FALSE(expected_["chats"].empty());
  for (const json& c : expected_["chats"]) {
    EXPECT_EQ(convert(converter, {{"messages", c["messages"]}}),
              json({{"text", c["text"]}, {"ids", c["ids"]}}));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenText,
                         testing::Values("f16_sharded", "gguf_llama3", "gguf_q4_0", "gguf_q4_1",
                                         "gqa_tied", "mha_biases", "rope_linear", "rope_llama3",
                                         "rope_yarn_new_keys", "rope_yarn_old_keys",
                                         "wide_heads_f32"),
                         [](const auto& golden) { return golden.param; });

class LineConverterTest : public testing::Test {
 protected:
  LineConverterTest() { options_.model = (kGoldens / "f16_sharded").string(); }  // adds BOS (id 0)

  std::string template_file(const std::string& source) {
    std::string path = testing::TempDir() + "tokenize_template.jinja";
    std::ofstream(path) << source;
    return path;
  }

  TokenizeOptions options_;
};

TEST_F(LineConverterTest, SpecialTokensOfTheTokenizerCanBeLeftOut) {
  const json with = convert(converter_for(options_), {{"text", "sea"}})["ids"];
  options_.no_special_tokens = true;
  const json without = convert(converter_for(options_), {{"text", "sea"}})["ids"];
  EXPECT_EQ(with[0], 0);
  EXPECT_EQ(with.size(), without.size() + 1);
  EXPECT_EQ(json(with.begin() + 1, with.end()), json(without.begin(), without.end()));
}

TEST_F(LineConverterTest, SpecialTokenTextBecomesTheSpecialId) {
  EXPECT_EQ(convert(converter_for(options_), {{"text", "<|im_end|>"}}),
            json::parse(R"({"ids":[0,2]})"));
}

TEST_F(LineConverterTest, DecodingShowsSpecialTokensUnlessAskedNotTo) {
  options_.decode = true;
  const json line = json::parse(R"({"ids":[0,2]})");
  EXPECT_EQ(convert(converter_for(options_), line), json({{"text", "<|endoftext|><|im_end|>"}}));
  options_.skip_special_tokens = true;
  EXPECT_EQ(convert(converter_for(options_), line), json({{"text", ""}}));
}

TEST_F(LineConverterTest, EmptyTextAndEmptyIdsAreNoErrors) {
  EXPECT_EQ(convert(converter_for(options_), {{"text", ""}}), json::parse(R"({"ids":[0]})"));
  options_.decode = true;
  EXPECT_EQ(convert(converter_for(options_), {{"ids", json::array()}}), json({{"text", ""}}));
}

TEST_F(LineConverterTest, ChatsEndWithoutAGenerationPromptWhereAsked) {
  options_.chat = true;
  const json line = {{"messages", {{{"role", "system"}, {"content", "x"}}}}};
  EXPECT_EQ(convert(converter_for(options_), line)["text"],
            "<|im_start|>system\nx<|im_end|>\n<|im_start|>assistant\n");
  options_.no_generation_prompt = true;
  EXPECT_EQ(convert(converter_for(options_), line)["text"], "<|im_start|>system\nx<|im_end|>\n");
}

TEST_F(LineConverterTest, ATemplateFileReplacesTheModelsOwn) {
  options_.chat = true;
  options_.chat_template = template_file("{{ bos_token }}{{ messages[0].content }}");
  const json out =
      convert(converter_for(options_), {{"messages", {{{"role", "user"}, {"content", "sea"}}}}});
  EXPECT_EQ(out["text"], "<|endoftext|>sea");
  // The template wrote the only BOS.
  EXPECT_EQ(out["ids"][0], 0);
  EXPECT_NE(out["ids"][1], 0);
}

TEST_F(LineConverterTest, ToolsDocumentsAndKeywordsReachTheTemplate) {
  options_.chat = true;
  options_.chat_template =
      template_file("{{ tools[0].function.name }}|{{ documents[0].title }}|{{ enable_thinking }}");
  const json line = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                     {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
                     {"documents", {{{"title", "d"}}}},
                     {"chat_template_kwargs", {{"enable_thinking", false}}}};
  EXPECT_EQ(convert(converter_for(options_), line)["text"], "f|d|False");
}

TEST_F(LineConverterTest, WhatATemplateRefusesIsAnErrorOfItsLine) {
  options_.chat = true;
  options_.chat_template = template_file("{{ raise_exception('roles must alternate') }}");
  const std::string error =
      error_of(converter_for(options_), R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_NE(error.find("roles must alternate"), std::string::npos) << error;
}

TEST_F(LineConverterTest, TemplateFilesMustExistAndParse) {
  options_.chat = true;
  options_.chat_template = "/nonexistent.jinja";
  EXPECT_THROW(converter_for(options_), std::invalid_argument);
  options_.chat_template = template_file("{% if %}");
  EXPECT_THROW(converter_for(options_), std::invalid_argument);
}

TEST_F(LineConverterTest, BadLinesSayWhatIsWrong) {
  const LineConverter encode = converter_for(options_);
  EXPECT_EQ(error_of(encode, "{}"), "line 7: \"text\" is missing");
  EXPECT_EQ(error_of(encode, R"({"text":1})"), "line 7: \"text\" is not a string");
  EXPECT_NE(
      error_of(encode, R"({"text":"a","add_special_tokens":false})").find("add_special_tokens"),
      std::string::npos);
  for (const char* bad : {"", "null", "[]", "{", "{\"text\":\"\xff\"}", R"({"text":"\ud800"})"}) {
    EXPECT_TRUE(error_of(encode, bad).starts_with("line 7: ")) << bad;
  }
}

TEST_F(LineConverterTest, BadIdsAreNamed) {
  options_.decode = true;
  const LineConverter decode = converter_for(options_);
  for (const char* bad : {R"({"ids":5})", R"({"ids":["5"]})", R"({"ids":[1.0]})", R"({"ids":[-1]})",
                          R"({"ids":[4294967296]})", R"({"ids":[18446744073709551615]})",
                          R"({"ids":[999999]})", R"({"ids":[null]})"}) {
    EXPECT_TRUE(error_of(decode, bad).starts_with("line 7: ")) << bad;
  }
  const int size =
      load_model_text({.model = options_.model, .chat_template = {}}).tokenizer->vocab_size();
  EXPECT_EQ(error_of(decode, json({{"ids", {0, size}}}).dump()),
            "line 7: \"ids\" holds " + std::to_string(size) + "; accepted: 0 to " +
                std::to_string(size - 1) + ", the tokenizer's ids");
}

TEST_F(LineConverterTest, BadChatsAreErrorsOfTheirLine) {
  options_.chat = true;
  const LineConverter chat = converter_for(options_);
  for (const char* bad :
       {R"({"text":"x"})", R"({"messages":"x"})", R"({"messages":[1]})",
        R"({"messages":[{"content":"x"}]})", R"({"messages":[{"role":"user","content":7}]})",
        R"({"messages":[{"role":"user","content":"x"}],"tools":{}})",
        R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[]})"}) {
    EXPECT_TRUE(error_of(chat, bad).starts_with("line 7: ")) << bad;
  }
}

TEST(ModelTextTest, NeedsOnlyTheTokenizersFiles) {
  const fs::path folder = fs::path(testing::TempDir()) / "tokenizer_only";
  fs::create_directories(folder);
  fs::copy_file(kGoldens / "gqa_tied/tokenizer.json", folder / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  const ModelText text = load_model_text({.model = folder.string(), .chat_template = std::nullopt});
  EXPECT_GT(text.tokenizer->vocab_size(), 0);
  EXPECT_EQ(text.chat, nullptr);
  EXPECT_NE(text.chat_problem.find("no chat template"), std::string::npos) << text.chat_problem;
  EXPECT_THROW(text.render({}, 0), TemplateError);
}

/// A model with several templates, by name.
ModelText with_templates(const json& templates) {
  const fs::path folder = fs::path(testing::TempDir()) / "several_templates";
  fs::create_directories(folder);
  fs::copy_file(kGoldens / "gqa_tied/tokenizer.json", folder / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "tokenizer_config.json") << json({{"chat_template", templates}});
  return load_model_text({.model = folder.string(), .chat_template = std::nullopt});
}

TEST(ModelTextTest, RequestsWithToolsGetTheToolTemplate) {
  const ModelText text = with_templates({{{"name", "default"}, {"template", "plain"}},
                                         {{"name", "tool_use"}, {"template", "tools"}}});
  ChatRequest request;
  request.messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(text.render(request, 0), "plain");
  request.tools = nlohmann::ordered_json::array();
  EXPECT_EQ(text.render(request, 0), "plain");
  request.tools.push_back({{"type", "function"}});
  EXPECT_EQ(text.render(request, 0), "tools");
}

TEST(ModelTextTest, ATemplateThatWalksOverPartsGetsThemAsParts) {
  ChatRequest request;
  request.messages = {
      {{"role", "user"},
       {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}};
  const ModelText whole =
      with_templates({{{"name", "default"}, {"template", "{{ messages[0].content }}"}}});
  EXPECT_EQ(whole.render(request, 0), "ab");
  const ModelText parts = with_templates(
      {{{"name", "default"},
        {"template", "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}"}}});
  EXPECT_EQ(parts.render(request, 0), "<a><b>");
}

TEST(ModelTextTest, SeveralTemplatesWithoutADefaultAreNotGuessedAmong) {
  const ModelText text = with_templates(
      {{{"name", "rag"}, {"template", "a"}}, {{"name", "tool_use"}, {"template", "b"}}});
  EXPECT_EQ(text.chat, nullptr);
  EXPECT_NE(text.chat_problem.find("rag"), std::string::npos) << text.chat_problem;
}

TEST(ModelTextTest, TemplatesDecideTheFingerprint) {
  const auto fingerprint = [](const char* source) {
    return with_templates({{{"name", "default"}, {"template", source}}}).template_fingerprint;
  };
  EXPECT_EQ(fingerprint("a"), fingerprint("a"));
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
}

}  // namespace
}  // namespace headrace
