#include "runtime/job/choice_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace headrace {
namespace {

struct StopMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  const std::string* text = nullptr;
};

// The stop string whose end lies first beyond `unchecked` bytes of text.
std::optional<StopMatch> find_stop(std::string_view text, std::size_t unchecked,
                                   const std::vector<std::string>& stops) {
  std::optional<StopMatch> best;
  for (const std::string& stop : stops) {
    const std::size_t from = unchecked + 1 > stop.size() ? unchecked + 1 - stop.size() : 0;
    const std::size_t begin = text.find(stop, from);
    if (begin == std::string_view::npos) continue;
    const StopMatch match{begin, begin + stop.size(), &stop};
    if (!best || match.end < best->end) best = match;
  }
  return best;
}

}  // namespace

ChoiceDecoder::ChoiceDecoder(const Request& request, int choice,
                             std::shared_ptr<const Tokenizer> tokenizer)
    : request_(&request),
      max_tokens_(request.prompt_of(choice).max_tokens),
      decoder_(std::move(tokenizer), {.skip_special_tokens = request.skip_special_tokens}) {}

bool ChoiceDecoder::add(const ScoredToken& token) {
  if (finish_ != FinishReason::kNone) return false;
  tokens_.push_back(token);
  if (ends_by_id(token.token)) {
    if (request_->include_stop_str_in_output) append(decoder_.push(token.token));
    close(FinishReason::kStop);
    return true;
  }
  append(decoder_.push(token.token));
  if (finish_ == FinishReason::kNone && static_cast<int>(tokens_.size()) >= max_tokens_) {
    close(FinishReason::kLength);
  }
  return true;
}

void ChoiceDecoder::end(FinishReason reason) {
  if (finish_ == FinishReason::kNone) close(reason);
}

// Whether the token is a stop id, and what to say about it.
bool ChoiceDecoder::ends_by_id(TokenId token) {
  const auto contains = [token](const std::vector<TokenId>& ids) {
    return std::binary_search(ids.begin(), ids.end(), token);
  };
  if (static_cast<int>(tokens_.size()) < request_->params.min_tokens) return false;
  if (!contains(request_->stop_token_ids)) return false;
  if (!contains(request_->end_ids)) stop_reason_ = token;
  return true;
}

// Adds text and looks for a stop string in it.
void ChoiceDecoder::append(const std::string& piece) {
  text_ += piece;
  const int min_tokens = request_->params.min_tokens;
  if (min_tokens > 0 && static_cast<int>(tokens_.size()) <= min_tokens) unchecked_ = text_.size();
  const std::optional<StopMatch> match = find_stop(text_, unchecked_, request_->stop);
  unchecked_ = text_.size();
  if (!match) return;
  text_.resize(request_->include_stop_str_in_output ? match->end : match->begin);
  stop_reason_ = *match->text;
  finish_ = FinishReason::kStop;
}

// Takes the text that the decoder still held back; a stop string may end in it.
void ChoiceDecoder::close(FinishReason reason) {
  append(decoder_.finish());
  if (finish_ == FinishReason::kNone) finish_ = reason;
}

}  // namespace headrace
