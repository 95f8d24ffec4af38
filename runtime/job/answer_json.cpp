#include "runtime/job/answer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/job/json_text.h"

namespace headrace {
namespace {

// A token's own text. Bytes that make no character show as U+FFFD.
std::string token_text(const Answer& answer, TokenId id) {
  return answer.context.tokenizer->decode(std::span(&id, 1), {.skip_special_tokens = false});
}

// The `count` best alternatives and the token itself, best first. The sampled token comes last
// where it is not among the best, as OpenAI and vLLM show it.
std::vector<std::pair<TokenId, float>> shown_alternatives(const ScoredToken& token, int count) {
  std::vector<std::pair<TokenId, float>> shown(
      token.top.begin(),
      token.top.begin() + std::min<std::ptrdiff_t>(count, std::ssize(token.top)));
  const bool present = std::any_of(shown.begin(), shown.end(),
                                   [&](const auto& pair) { return pair.first == token.token; });
  if (!present) shown.emplace_back(token.token, token.logprob);
  return shown;
}

void append_key(std::string& out, std::string_view name) {
  if (out.back() != '{') out += ',';
  append_json_string(out, name);
  out += ':';
}

template <typename Items, typename Append>
void append_list(std::string& out, const Items& items, Append&& append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append(item);
  }
  out += ']';
}

void append_ids(std::string& out, std::span<const TokenId> ids) {
  append_list(out, ids, [&](TokenId id) { append_json_integer(out, id); });
}

void append_token_ids(std::string& out, std::span<const ScoredToken> tokens) {
  append_list(out, tokens, [&](const ScoredToken& t) { append_json_integer(out, t.token); });
}

// Completions' four lists cover the prompt (with echo) and the completion.
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Answer& answer, int choice) : answer_(answer) {
    const Request& request = answer.request;
    if (request.echo) {
      add_prompt(request.prompt_of(choice).tokens,
                 answer.prompt_scores[static_cast<std::size_t>(choice / request.n)]);
    }
    for (const ScoredToken& token : answer.choices[static_cast<std::size_t>(choice)].tokens()) {
      add(token.token, &token);
    }
  }

  void append(std::string& out) const {
    out += '{';
    append_key(out, "text_offset");
    append_list(out, entries_, [&](const Entry& e) { append_json_integer(out, e.offset); });
    append_key(out, "token_logprobs");
    append_list(out, entries_, [&](const Entry& e) { append_logprob(out, e); });
    append_key(out, "tokens");
    append_list(out, entries_, [&](const Entry& e) { append_json_string(out, e.text); });
    append_key(out, "top_logprobs");
    append_list(out, entries_, [&](const Entry& e) { append_top(out, e); });
    out += '}';
  }

 private:
  struct Entry {
    std::string text;
    std::int64_t offset = 0;
    const ScoredToken* score = nullptr;  // null: the first token, which nothing predicts
  };

  void add_prompt(std::span<const TokenId> tokens, std::span<const ScoredToken> scores) {
    add(tokens.front(), nullptr);
    for (std::size_t i = 0; i < scores.size(); ++i) add(tokens[i + 1], &scores[i]);
  }

  void add(TokenId id, const ScoredToken* score) {
    Entry entry{token_text(answer_, id), offset_, score};
    offset_ += num_characters(entry.text);
    entries_.push_back(std::move(entry));
  }

  static void append_logprob(std::string& out, const Entry& entry) {
    if (entry.score == nullptr) {
      out += "null";
    } else {
      append_json_logprob(out, entry.score->logprob);
    }
  }

  void append_top(std::string& out, const Entry& entry) const {
    if (entry.score == nullptr) {
      out += "null";
      return;
    }
    out += '{';
    // Two ids may have the same text: the better one keeps it.
    std::vector<std::string> seen;
    for (const auto& [id, logprob] :
         shown_alternatives(*entry.score, answer_.request.num_logprobs)) {
      std::string text = token_text(answer_, id);
      if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
      append_key(out, text);
      append_json_logprob(out, logprob);
      seen.push_back(std::move(text));
    }
    out += '}';
  }

  const Answer& answer_;
  std::int64_t offset_ = 0;  // in characters
  std::vector<Entry> entries_;
};

void append_chat_token(std::string& out, const Answer& answer, TokenId id, float logprob) {
  const std::string text = token_text(answer, id);
  append_key(out, "token");
  append_json_string(out, text);
  append_key(out, "logprob");
  append_json_logprob(out, logprob);
  append_key(out, "bytes");
  append_list(out, text, [&](char c) { append_json_integer(out, static_cast<unsigned char>(c)); });
}

void append_chat_logprobs(std::string& out, const Answer& answer, const ChoiceDecoder& choice) {
  const int count = answer.request.num_logprobs;
  out += "{\"content\":";
  append_list(out, choice.tokens(), [&](const ScoredToken& token) {
    out += '{';
    append_chat_token(out, answer, token.token, token.logprob);
    append_key(out, "top_logprobs");
    const std::size_t shown = std::min(token.top.size(), static_cast<std::size_t>(count));
    append_list(out, std::span(token.top).first(shown), [&](const auto& pair) {
      out += '{';
      append_chat_token(out, answer, pair.first, pair.second);
      out += '}';
    });
    out += '}';
  });
  out += '}';
}

void append_ranked(std::string& out, const Answer& answer, const ScoredToken& entry) {
  append_key(out, std::to_string(entry.token));
  out += "{\"logprob\":";
  append_json_logprob(out, entry.logprob);
  append_key(out, "rank");
  append_json_integer(out, entry.rank);
  append_key(out, "decoded_token");
  append_json_string(out, token_text(answer, entry.token));
  out += '}';
}

// vLLM's prompt_logprobs: null, then for each position an object by token id, its own token first.
void append_prompt_logprobs(std::string& out, const Answer& answer, std::size_t prompt) {
  const auto count = static_cast<std::size_t>(answer.request.num_prompt_logprobs);
  out += "[null";
  for (const ScoredToken& score : answer.prompt_scores[prompt]) {
    out += ",{";
    append_ranked(out, answer, score);
    for (std::size_t i = 0; i < std::min(count, score.top.size()); ++i) {
      const auto& [id, logprob] = score.top[i];
      if (id == score.token) continue;
      append_ranked(out, answer, {id, logprob, static_cast<std::int32_t>(i) + 1, {}});
    }
    out += '}';
  }
  out += ']';
}

void append_finish(std::string& out, const ChoiceDecoder& choice) {
  append_key(out, "finish_reason");
  out += choice.finish() == FinishReason::kStop ? "\"stop\"" : "\"length\"";
  append_key(out, "stop_reason");
  if (const auto* id = std::get_if<TokenId>(&choice.stop_reason())) {
    append_json_integer(out, *id);
  } else if (const auto* text = std::get_if<std::string>(&choice.stop_reason())) {
    append_json_string(out, *text);
  } else {
    out += "null";
  }
}

void append_completion_choice(std::string& out, const Answer& answer, int index) {
  const Request& request = answer.request;
  const ChoiceDecoder& choice = answer.choices[static_cast<std::size_t>(index)];
  out += "{\"index\":";
  append_json_integer(out, index);
  append_key(out, "text");
  append_json_string(out,
                     request.echo ? request.prompt_of(index).text + choice.text() : choice.text());
  append_key(out, "logprobs");
  if (request.num_logprobs >= 0) {
    CompletionLogprobs(answer, index).append(out);
  } else {
    out += "null";
  }
  append_finish(out, choice);
  if (request.num_prompt_logprobs >= 0) {
    append_key(out, "prompt_logprobs");
    append_prompt_logprobs(out, answer, static_cast<std::size_t>(index / request.n));
  }
  if (request.return_token_ids) {
    append_key(out, "token_ids");
    append_token_ids(out, choice.tokens());
    append_key(out, "prompt_token_ids");
    append_ids(out, request.prompt_of(index).tokens);
  }
  out += '}';
}

void append_chat_choice(std::string& out, const Answer& answer, int index) {
  const ChoiceDecoder& choice = answer.choices[static_cast<std::size_t>(index)];
  out += "{\"index\":";
  append_json_integer(out, index);
  append_key(out, "message");
  out += "{\"role\":\"assistant\",\"content\":";
  append_json_string(out, choice.text());
  out += '}';
  append_key(out, "logprobs");
  if (answer.request.num_logprobs >= 0) {
    append_chat_logprobs(out, answer, choice);
  } else {
    out += "null";
  }
  append_finish(out, choice);
  if (answer.request.return_token_ids) {
    append_key(out, "token_ids");
    append_token_ids(out, choice.tokens());
  }
  out += '}';
}

// A chat has one prompt: what concerns it stands beside the choices.
void append_chat_prompt(std::string& out, const Answer& answer) {
  if (answer.request.num_prompt_logprobs >= 0) {
    append_key(out, "prompt_logprobs");
    append_prompt_logprobs(out, answer, 0);
  }
  if (answer.request.return_token_ids) {
    append_key(out, "prompt_token_ids");
    append_ids(out, answer.request.prompts.front().tokens);
  }
}

void append_usage(std::string& out, const Answer& answer) {
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_completion_tokens = 0;
  for (const Prompt& prompt : answer.request.prompts)
    num_prompt_tokens += std::ssize(prompt.tokens);
  for (const ChoiceDecoder& choice : answer.choices)
    num_completion_tokens += std::ssize(choice.tokens());
  out += fmt::format("{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{}}}",
                     num_prompt_tokens, num_completion_tokens,
                     num_prompt_tokens + num_completion_tokens);
}

}  // namespace

void append_body(std::string& out, const Answer& answer) {
  const bool chat = answer.request.endpoint == Endpoint::kChat;
  out += "{\"id\":\"";
  out += line_id(chat ? "chatcmpl-" : "cmpl-", answer.context.job_key, answer.request.line);
  out += chat ? "\",\"object\":\"chat.completion\"" : "\",\"object\":\"text_completion\"";
  append_key(out, "created");
  append_json_integer(out, answer.context.created);
  append_key(out, "model");
  append_json_string(out, answer.context.model);
  append_key(out, "choices");
  out += '[';
  for (int i = 0; i < answer.request.num_choices(); ++i) {
    if (i > 0) out += ',';
    chat ? append_chat_choice(out, answer, i) : append_completion_choice(out, answer, i);
  }
  out += ']';
  append_key(out, "usage");
  append_usage(out, answer);
  if (chat) append_chat_prompt(out, answer);
  out += '}';
}

std::string line_id(std::string_view prefix, Hash128 job_key, std::int64_t line) {
  return fmt::format("{}{}", prefix, hex(hash128(fmt::format("{} line {}", hex(job_key), line))));
}

}  // namespace headrace
