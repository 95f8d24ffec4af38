#include "model/chat/chat_prompt.h"

#include <gtest/gtest.h>

#include "model/chat/chat_template.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

Json context_of(const char* messages, ContentForm form = ContentForm::kText) {
  ChatRequest request;
  request.messages = Json::parse(messages);
  return chat_context(request, {}, form);
}

std::string refusal(const ChatRequest& request) {
  try {
    chat_context(request, {}, ContentForm::kText);
    return "no error";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string refusal(const char* messages) {
  ChatRequest request;
  request.messages = Json::parse(messages);
  return refusal(request);
}

TEST(ChatPrompt, TheContextHasWhatTransformersGivesATemplate) {
  ChatRequest request;
  request.messages = Json::parse(R"([{"role":"user","content":"hi"}])");
  request.add_generation_prompt = false;
  request.template_kwargs = {{"enable_thinking", false}};
  SpecialTexts special;
  special.bos = "<s>";
  EXPECT_EQ(chat_context(request, special, ContentForm::kText).dump(),
            R"({"messages":[{"role":"user","content":"hi"}],"tools":null,"documents":null,)"
            R"("add_generation_prompt":false,"bos_token":"<s>","enable_thinking":false})");
}

TEST(ChatPrompt, AbsentToolsAreNoneAndAbsentTokensUndefined) {
  const ChatTemplate chat("{{ tools is none }} {{ bos_token is defined }} {{ documents }}", "t");
  EXPECT_EQ(chat.render(context_of(R"([{"role":"user","content":"x"}])"), 0), "True False None");
}

TEST(ChatPrompt, TemplateArgumentsWinOverSpecialTokens) {
  ChatRequest request;
  request.messages = Json::parse(R"([{"role":"user","content":"x"}])");
  request.template_kwargs = {{"bos_token", "B"}};
  SpecialTexts special;
  special.bos = "<s>";
  EXPECT_EQ(chat_context(request, special, ContentForm::kText)["bos_token"], "B");
}

TEST(ChatPrompt, TextPartsAreJoinedOrKeptAsTheTemplateTakesThem) {
  const char* messages =
      R"([{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(context_of(messages)["messages"][0]["content"], "a b");
  EXPECT_EQ(context_of(messages, ContentForm::kParts)["messages"][0]["content"].size(), 2U);
}

TEST(ChatPrompt, NullContentIsEmptyAndOtherNullsAreLeftOut) {
  const Json context =
      context_of(R"([{"role":"assistant","content":null,"tool_calls":null,"name":null}])");
  EXPECT_EQ(context["messages"].dump(), R"([{"role":"assistant","content":""}])");
}

TEST(ChatPrompt, ReasoningIsFoundUnderEveryNameTemplatesRead) {
  EXPECT_EQ(
      context_of(R"([{"role":"assistant","content":"x","reasoning":"r"}])")["messages"].dump(),
      R"([{"thinking":"r","role":"assistant","content":"x","reasoning":"r","reasoning_content":"r"}])");
}

TEST(ChatPrompt, ArgumentsOfToolCallsBecomeObjects) {
  const Json context = context_of(
      R"([{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
          {"function":{"name":"g","arguments":"not json"}}]}])");
  const Json& calls = context["messages"][0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"].dump(), R"({"a":1})");
  EXPECT_EQ(calls[1]["function"]["arguments"], "not json");
}

TEST(ChatPrompt, BadMessagesAreRefusedByPlace) {
  EXPECT_EQ(refusal("[]"), "messages: must be a list of at least one message");
  EXPECT_EQ(refusal("{}"), "messages: must be a list of at least one message");
  EXPECT_EQ(refusal("[3]"), "messages[0]: a message must be an object");
  EXPECT_EQ(refusal(R"([{"content":"x"}])"), "messages[0]: a message must have a string 'role'");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"x"},{"role":"user","content":7}])"),
            "messages[1].content: content must be a string, null or a list of text parts");
  EXPECT_EQ(
      refusal(
          R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{}}]}])"),
      "messages[0].content[1]: a content part of type 'image_url' is not supported, only 'text' "
      "is");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "messages[0].content[0]: a text part must have a string 'text'");
  EXPECT_EQ(refusal(R"([{"role":"user","content":["x"]}])"),
            "messages[0].content[0]: a content part must be an object with a type");
}

TEST(ChatPrompt, BadToolsAndArgumentsAreRefused) {
  ChatRequest request;
  request.messages = Json::parse(R"([{"role":"user","content":"x"}])");
  request.tools = Json::parse("[1]");
  EXPECT_EQ(refusal(request), "tools[0]: must be an object");
  request.tools = nullptr;
  request.documents = "x";
  EXPECT_EQ(refusal(request), "documents: must be a list of objects or null");
  request.documents = nullptr;
  request.template_kwargs = {{"messages", 1}};
  EXPECT_EQ(refusal(request), "chat_template_kwargs.messages: is a part of the request itself");
  request.template_kwargs = 3;
  EXPECT_EQ(refusal(request), "chat_template_kwargs: must be an object");
}

TEST(ChatPrompt, TheFormOfContentIsReadOffTheTemplate) {
  const auto form = [](const char* source) { return detect_content_form(source, "t"); };
  EXPECT_EQ(form("{% for m in messages %}{{ m.content }}{% endfor %}"), ContentForm::kText);
  EXPECT_EQ(form("{% for m in messages %}{{ m['content']|trim }}{% endfor %}"), ContentForm::kText);
  EXPECT_EQ(form("{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}"),
            ContentForm::kParts);
  EXPECT_EQ(form("{% for m in messages %}{% for p in m['content']|selectattr('type') %}{% endfor "
                 "%}{% endfor %}"),
            ContentForm::kParts);
  EXPECT_EQ(
      form(
          "{% for m in messages %}{% set c = m.content %}{% for p in c %}{% endfor %}{% endfor %}"),
      ContentForm::kParts);
  EXPECT_EQ(form("{% macro show(x) %}{% for p in x %}{% endfor %}{% endmacro %}{{ "
                 "show(messages[0].content) }}"),
            ContentForm::kParts);
  EXPECT_EQ(form("{% macro show(x) %}{% for p in x %}{% endfor %}{% endmacro %}{{ show(tools) }}"),
            ContentForm::kText);
  EXPECT_EQ(form("{% for t in tools %}{{ t }}{% endfor %}{{ messages[0].content }}"),
            ContentForm::kText);
  EXPECT_THROW(form("{% if %}"), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
