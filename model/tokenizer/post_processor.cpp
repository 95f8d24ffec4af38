#include "model/tokenizer/post_processor.h"

#include <algorithm>

namespace headrace {
namespace {

class Parser {
 public:
  explicit Parser(const std::function<bool(std::int64_t)>& is_token) : is_token_(is_token) {}

  SequenceTemplate run(const JsonNode& node) {
    parse(node);
    return std::move(out_);
  }

 private:
  void parse(const JsonNode& node) {
    const std::string type = node.at("type").string();
    if (type == "Sequence") {
      for (const JsonNode& part : node.at("processors").elements()) parse(part);
    } else if (type == "TemplateProcessing") {
      require_only_one(node);
      parse_template(node);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      require_only_one(node);
      out_ = {{.is_text = false, .ids = {named_id(node.at("cls"))}},
              {.is_text = true, .ids = {}},
              {.is_text = false, .ids = {named_id(node.at("sep"))}}};
    } else if (type != "ByteLevel") {  // which moves offsets alone
      node.at("type").reject(
          "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence");
    }
  }

  void require_only_one(const JsonNode& node) const {
    if (!out_.empty()) node.at("type").reject("one step that adds tokens, not a second");
  }

  TokenId checked_id(const JsonNode& node) const {
    const std::int64_t id = node.integer();
    if (!is_token_(id)) node.reject("the id of a token");
    return static_cast<TokenId>(id);
  }

  // ["[CLS]", 101]
  TokenId named_id(const JsonNode& node) const {
    const auto pair = node.elements();
    if (pair.size() != 2) node.reject("[text, id]");
    return checked_id(pair[1]);
  }

  void parse_template(const JsonNode& node) {
    for (const JsonNode& piece : node.at("single").elements()) {
      const auto members = piece.members();
      if (members.size() == 1 && members[0].first == "Sequence") {
        const JsonNode id = members[0].second.at("id");
        if (id.string() != "A") id.reject("\"A\" in the template of a single text");
        out_.push_back({.is_text = true, .ids = {}});
      } else if (members.size() == 1 && members[0].first == "SpecialToken") {
        out_.push_back({.is_text = false, .ids = special_ids(node, members[0].second.at("id"))});
      } else {
        piece.reject("{\"Sequence\": ...} or {\"SpecialToken\": ...}");
      }
    }
    if (out_.empty()) node.at("single").reject("a template with at least one piece");
  }

  std::vector<TokenId> special_ids(const JsonNode& node, const JsonNode& name) const {
    const auto tokens = node.at("special_tokens").members();
    const std::string text = name.string();
    const auto token = std::find_if(tokens.begin(), tokens.end(),
                                    [&text](const auto& member) { return member.first == text; });
    if (token == tokens.end()) name.reject("a name from special_tokens");
    std::vector<TokenId> ids;
    for (const JsonNode& id : token->second.at("ids").elements()) ids.push_back(checked_id(id));
    return ids;
  }

  const std::function<bool(std::int64_t)>& is_token_;
  SequenceTemplate out_;
};

}  // namespace

SequenceTemplate parse_post_processor(const JsonNode& node,
                                      const std::function<bool(std::int64_t)>& is_token) {
  return Parser(is_token).run(node);
}

}  // namespace headrace
