// Errors, limits and thread safety of chat templates.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "model/chat/chat_template.h"
#include "tests/limits.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNow = 1732000000;

std::string render(const std::string& source, const Json& context = Json::object()) {
  return ChatTemplate(source, "t").render(context, kNow);
}

std::string failure(const std::string& source, const Json& context = Json::object(),
                    ChatTemplate::Limits limits = {}) {
  try {
    return "no error: " + ChatTemplate(source, "t").render(context, kNow, limits);
  } catch (const TemplateError& error) {
    return error.what();
  }
}

std::string refusal(const std::string& source) {
  try {
    const ChatTemplate chat(source, "name.jinja");
    return "no error";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(ChatTemplate, SyntaxErrorsNameTheTemplateAndTheLine) {
  EXPECT_EQ(refusal("a\nb {{ 1 + }}"), "name.jinja:2: unexpected 'end of print statement'");
  EXPECT_EQ(refusal("\n\n{% nope %}").substr(0, 14), "name.jinja:3: ");
  EXPECT_EQ(refusal("{% if a %}\n{% for x in y %}"),
            "name.jinja:2: Unexpected end of template. Jinja was looking for the following tags: "
            "'endfor' or 'else'.");
  EXPECT_EQ(refusal("{{ 'a' | shout }}"), "name.jinja:1: No filter named 'shout'.");
  EXPECT_EQ(refusal("{{ 1 is loud }}"), "name.jinja:1: No test named 'loud'.");
  EXPECT_EQ(refusal(std::string("a\n\xff")), "name.jinja:2: invalid UTF-8 at byte 2");
}

TEST(ChatTemplate, UnsupportedTagsAreNamed) {
  for (const char* tag :
       {"include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'", "block b", "do x"}) {
    const std::string word = std::string(tag).substr(0, std::string(tag).find(' '));
    EXPECT_EQ(refusal("{% " + std::string(tag) + " %}"),
              "name.jinja:1: the tag '" + word + "' is not supported in chat templates");
  }
}

TEST(ChatTemplate, UnsupportedFiltersAreNamedWhereTheyAreReached) {
  EXPECT_EQ(refusal("{{ 'a'|wordwrap }}"),
            "name.jinja:1: the filter 'wordwrap' is not supported in chat templates");
  EXPECT_EQ(render("{% if false %}{{ 'a'|wordwrap }}{% endif %}ok"), "ok");
  EXPECT_EQ(failure("{% if true %}{{ 'a'|wordwrap }}{% endif %}"),
            "t:1: the filter 'wordwrap' is not supported in chat templates");
}

TEST(ChatTemplate, TextThatIsNotUtf8IsAnError) {
  EXPECT_EQ(failure("{{ x }}", {{"x", "ab\xff"}}),
            "t:1: the request holds invalid UTF-8 at byte 2 of a text");
}

TEST(ChatTemplate, RenderErrorsNameTheLineAndRaisedOnesAreTheTemplatesOwnWords) {
  EXPECT_EQ(failure("\n{{ a.b }}"), "t:2: 'a' is undefined");
  EXPECT_EQ(failure("\n\n{{ 1 / 0 }}"), "t:3: division by zero");
  EXPECT_EQ(failure("{{ raise_exception('Only users, please') }}"), "Only users, please");
  EXPECT_EQ(failure("{{ 'a'.encode() }}"),
            "t:1: the method str.encode is not supported in chat templates");
  EXPECT_EQ(failure("{{ l.append(1) }}", {{"l", {1}}}),
            "t:1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(failure("{{ 2 ** 1000 }}"), "t:1: an integer has more than 126 bits");
}

TEST(ChatTemplate, ANamespaceReplacedByItsOwnAssignmentIsAnError) {
  EXPECT_EQ(failure("{% set ns = namespace() %}{% set ns, ns.a = 1, 2 %}"),
            "t:1: 'int' object does not support item assignment");
  EXPECT_EQ(failure("{% set d = {} %}{% set d.a %}x{% endset %}"),
            "t:1: 'dict' object does not support item assignment");
}

TEST(ChatTemplate, OutputBeyondTheLimitIsAnError) {
  ChatTemplate::Limits limits;
  limits.output_bytes = 1000;
  EXPECT_NE(failure("{{ 'a' * 1001 }}", Json::object(), limits).find("longer than 1000 bytes"),
            std::string::npos);
  EXPECT_NE(failure("{% for i in range(2000) %}a{% endfor %}", Json::object(), limits)
                .find("longer than"),
            std::string::npos);
  EXPECT_NE(failure("{{ 'a'.center(10000000000) }}", Json::object(), limits).find("longer than"),
            std::string::npos);
  EXPECT_EQ(render("{{ ('a' * 1000)|length }}"), "1000");
}

TEST(ChatTemplate, HostileTemplatesEndInAnErrorQuickly) {
  const std::string many = "{% for a in range(100000) %}{% for b in range(100000) %}";
  // One template a line.
  // clang-format off
  const std::vector<std::string> hostile{
      many + "{% endfor %}{% endfor %}",
      many + "{{ a ~ b }}{% endfor %}{% endfor %}",
      "{{ 'a' * 100000000000 }}",
      "{{ [1] * 100000000000 }}",
      "{{ [[1] * 100000] * 100000 }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%.1000000000f' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '{:.1000000000f}'.format(1.0) }}",
      "{{ 'a'.ljust(1000000000) }}",
      "{{ 'a'|indent(1000000000, true) }}",
      "{{ [1]|tojson(indent=1000000000) }}",
      "{{ range(1000000) }}",
      "{{ 9 ** 9 ** 9 }}",
      "{{ 'a'.replace('', 'b' * 1000000) * 1000 }}",
      "{{ strftime_now('%1000000000d') }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = [ns.v] %}{% endfor %}",
      "{% set ns = namespace(v=[]) %}{% for i in range(100) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ ns.v }}",
      "{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(100) %}{% set ns.v = [ns.v, ns.v] %}{% set ns.w = [ns.w, ns.w] %}{% endfor %}{{ ns.v == ns.w }}",
      "{% set ns = namespace(v='ab') %}{% for i in range(100) %}{% set ns.v = ns.v ~ ns.v %}{% endfor %}",
      "{% set ns = namespace(v='ab') %}{% for i in range(100) %}{% set ns.v = ns.v|map('upper') %}{% endfor %}{% for i in range(1000) %}{% set ns.v = ns.v|map('upper') %}{% endfor %}{{ ns.v|list }}",
      "{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}",
      "{% set s = 'a' * 60000000 %}" + many + "{% set x = s ~ a %}{% endfor %}{% endfor %}",
      "{% set s = 'a' * 60000000 %}" + many +
          "{% if s == s ~ '' %}{% endif %}{% endfor %}{% endfor %}",
      "{% set s = 'a' * 60000000 %}" + many + "{{ s.find('b') }}{% endfor %}{% endfor %}",
  };
  // clang-format on
  ChatTemplate::Limits limits;
  limits.steps = 3'000'000;  // a seventh of the default, so that the test takes seconds
  for (const std::string& source : hostile) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(failure(source, Json::object(), limits).substr(0, 2), "t:") << source;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), time_limit(30.0)) << source;
  }
}

TEST(ChatTemplate, DeepNestingIsRefusedBeforeItCanOverflowTheStack) {
  const auto repeated = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  const int n = 20000;
  for (const std::string& source : {
           "{{ " + repeated("(", n) + "1" + repeated(")", n) + " }}",
           "{{ " + repeated("[", n) + repeated("]", n) + " }}",
           "{{ 1" + repeated(" + 1", n) + " }}",
           "{{ a" + repeated(".b", n) + " }}",
           "{{ a" + repeated("|upper", n) + " }}",
           "{{ " + repeated("not ", n) + "a }}",
           "{{ " + repeated("-", n) + "1 }}",
           "{{ 1" + repeated(" if 1 else 1", n) + " }}",
           "{{ 1" + repeated(" ** 1", n) + " }}",
           repeated("{% if 1 %}", n) + repeated("{% endif %}", n),
           repeated("{% for a in b %}", n) + repeated("{% endfor %}", n),
       }) {
    EXPECT_NE(refusal(source).find("nested deeper than"), std::string::npos)
        << source.substr(0, 40);
  }
}

TEST(ChatTemplate, DeepRequestsAreRefused) {
  Json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_NE(failure("{{ messages }}", {{"messages", deep}}).find("nested deeper than 200 levels"),
            std::string::npos);
}

TEST(ChatTemplate, KeysKeepTheirOrderAndLargeDictsAreFound) {
  Json big = Json::object();
  for (int i = 99; i >= 0; --i) big["k" + std::to_string(i)] = i;
  EXPECT_EQ(render("{{ d.k7 }} {{ d['k50'] }} {{ 'k99' in d }} {{ 'k100' in d }} {{ d|first }} {{ "
                   "d|length }}",
                   {{"d", big}}),
            "7 50 True False k99 100");
}

TEST(ChatTemplate, SixtyFourBitNumbersOfARequestAreKeptExactly) {
  const Json context =
      Json::parse(R"({"v": [18446744073709551615, -9223372036854775808, 1e22, 0.1]})");
  EXPECT_EQ(render("{{ v }} {{ v[0] + 1 }} {{ v|tojson }}", context),
            "[18446744073709551615, -9223372036854775808, 1e+22, 0.1] 18446744073709551616 "
            "[18446744073709551615, -9223372036854775808, 1e+22, 0.1]");
}

TEST(ChatTemplate, OneTemplateRendersInManyThreadsAtOnce) {
  const ChatTemplate chat(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in range(n) %}{{ m('k' ~ i) }}{{ 'constant' "
      "* 2 }}{% endfor %}",
      "t");
  std::vector<std::string> results(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) results[t] = chat.render({{"n", 20}}, kNow);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_EQ(results[0].substr(0, 24), "<k0>constantconstant<k1>");
}

TEST(ChatTemplate, TheDateIsTheOneGiven) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A %H:%M') }}"), "19 Nov 2024, Tuesday 07:06");
  EXPECT_NE(failure("{{ strftime_now('%s') }}").find("time zone"), std::string::npos);
}

TEST(ChatTemplate, ARenderLeavesNothingBehindForTheNext) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{% set ns.me = ns %}{{ ns.n }}", "t");
  EXPECT_EQ(chat.render(Json::object(), kNow), "1");
  EXPECT_EQ(chat.render(Json::object(), kNow), "1");
}

}  // namespace
}  // namespace headrace
