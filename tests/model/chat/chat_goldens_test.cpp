// What jinja2 in transformers' environment makes of many templates (make_goldens.py), byte for
// byte.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "model/chat/chat_template.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

Json read_json(const std::string& name) {
  return Json::parse(read_text("tests/data/chat/" + name));
}

// The outcome of a render in the form of the golden files; errors of Python's without their
// message.
Json outcome(const std::string& source, const Json& context, std::int64_t now_s) {
  try {
    const ChatTemplate chat(source, "golden");
    try {
      return {{"output", chat.render(context, now_s)}};
    } catch (const TemplateError& error) {
      return {{"failed", error.what()}};
    }
  } catch (const std::invalid_argument& error) {
    return {{"refused", error.what()}};
  }
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void expect_same(const Json& wanted, const Json& got, const std::string& what) {
  const std::string key = wanted.begin().key();
  const std::string value = wanted.begin().value().get<std::string>();
  if (key == "output") {
    EXPECT_EQ(got, wanted) << what;
  } else if (key == "refused") {
    EXPECT_TRUE(got.contains("refused")) << what << "\n" << got;
  } else {
    ASSERT_TRUE(got.contains("failed")) << what << "\n" << got;
    const std::string message = got["failed"].get<std::string>();
    if (key == "raised") {
      EXPECT_EQ(message, value) << what;
    } else if (key == "undefined") {
      EXPECT_TRUE(ends_with(message, ": " + value)) << what << "\n" << message << "\n" << value;
    }
  }
}

TEST(ChatGoldens, EveryTemplateRendersEveryConversationAsJinja2Does) {
  const Json conversations = read_json("conversations.json");
  const Json templates = read_json("templates.json");
  EXPECT_GE(templates.size(), 30U);
  for (const auto& [name, outcomes] : templates.items()) {
    const std::string source = read_text("tests/model/chat/templates/" + name + ".jinja");
    EXPECT_EQ(outcomes.size(), conversations["contexts"].size());
    for (const auto& [conversation, wanted] : outcomes.items()) {
      const Json got = outcome(source, conversations["contexts"][conversation],
                               conversations["now_s"].get<std::int64_t>());
      std::string what = name;
      what.append(" on ").append(conversation);
      expect_same(wanted, got, what);
    }
  }
}

TEST(ChatGoldens, EveryConstructBehavesAsInJinja2) {
  const Json constructs = read_json("constructs.json");
  EXPECT_GE(constructs["cases"].size(), 800U);
  for (const Json& entry : constructs["cases"]) {
    const auto source = entry[0].get<std::string>();
    expect_same(entry[1],
                outcome(source, constructs["context"], constructs["now_s"].get<std::int64_t>()),
                source);
  }
}

}  // namespace
}  // namespace headrace
