#include "fake_job.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "fake_tokenizer.h"
#include "runtime/job/answer_builder.h"
#include "runtime/job/hash.h"
#include "runtime/job/request_parser.h"

namespace headrace {
namespace {

ScoredToken invent(const Request& request, int choice, std::int64_t position, int num_top) {
  const std::uint64_t bits = hash64(std::to_string(request.line) + " " + std::to_string(choice),
                                    static_cast<std::uint64_t>(position));
  ScoredToken token;
  token.token = static_cast<TokenId>('a' + bits % 26);
  token.logprob = -static_cast<float>(bits % 1000003) / 99991.0F;
  token.rank = 1 + static_cast<int>(bits % 7);
  for (int i = 0; i < num_top; ++i) {
    token.top.emplace_back('A' + i, -0.1F * static_cast<float>(i + 1));
  }
  return token;
}

class Loop {
 public:
  Loop(const FakeJob& job, FileOps& files) : job_(job), store_(job.options, files) {
    context_ = {tokenizer_, store_.job_key(), "fake", 0};
  }

  FakeResult run() {
    result_.state = store_.state();
    if (store_.state() == JobState::kFinished && job_.options.retry_failed &&
        store_.counts().num_failed > 0) {
      InputReader again({job_.inputs, {}});
      store_.reopen_failed(again);
    }
    while (true) {
      while (static_cast<int>(active_.size()) < job_.max_active && read_line()) {
      }
      if (active_.empty()) break;
      if (job_.stop_after_steps >= 0 && result_.num_steps >= job_.stop_after_steps) {
        store_.flush();
        result_.exit_code = 75;
        return result_;
      }
      step();
      store_.tick(job_.step_s * ++result_.num_steps);
    }
    store_.end_input();
    if (store_.state() != JobState::kFinished) store_.complete({{"layout", "1x1x1"}});
    result_.exit_code = store_.exit_code();
    return result_;
  }

 private:
  bool read_line() {
    InputLine line;
    if (!reader_.next(line)) return false;
    const LineState state = store_.begin_line(line, reader_.place(line));
    if (state == LineState::kFinished) {
      if (const auto id = peek_custom_id(line.text)) store_.claim_custom_id(*id);
      return true;
    }
    ++result_.num_runs_of_line[line.number];
    ParsedLine parsed = parser_.parse(line);
    if (parsed.custom_id && !store_.claim_custom_id(*parsed.custom_id)) {
      parsed.result = LineError{"duplicate_custom_id", "the custom_id came before"};
    }
    if (job_.fail_all) parsed.result = LineError{"invalid_request", "refused"};
    if (const auto* error = std::get_if<LineError>(&parsed.result)) {
      store_.finish_line({line.ordinal, false},
                         failed_line({line.number, parsed.custom_id, *error}, store_.job_key()));
      return true;
    }
    start(std::make_shared<Request>(std::get<Request>(std::move(parsed.result))));
    return true;
  }

  void start(const std::shared_ptr<Request>& request) {
    AnswerBuilder builder(request, context_);
    const SavedTokens saved = store_.take_saved(request->ordinal);
    for (std::size_t choice = 0; choice < saved.size(); ++choice) {
      for (const ScoredToken& token : saved[choice]) builder.add(static_cast<int>(choice), token);
    }
    active_.push_back(std::move(builder));
    finish_last_if_done(active_.size() - 1);
  }

  void step() {
    // Later lines advance faster, so that they finish out of order.
    for (std::size_t i = active_.size(); i-- > 0;) {
      for (std::size_t round = 0; round <= i; ++round) advance(active_[i]);
      finish_last_if_done(i);
    }
  }

  void advance(AnswerBuilder& builder) {
    const Request& request = builder.request();
    for (int choice = 0; choice < request.num_choices(); ++choice) {
      const auto sequence = builder.sequence(choice);
      if (!sequence) continue;
      if (sequence->params.num_prompt_logprobs >= 0) score_prompt(builder, choice, *sequence);
      if (sequence->max_tokens == 0) continue;
      const int position = builder.num_tokens(choice);
      const ScoredToken token = invent(request, choice, position, sequence->params.num_logprobs);
      ++result_.num_sampled;
      if (builder.add(choice, token)) {
        store_.add_tokens({request.ordinal, choice, position}, std::span(&token, 1));
      }
    }
  }

  void score_prompt(AnswerBuilder& builder, int choice, const NewSequence& sequence) {
    if (scored_.contains({builder.request().ordinal, choice})) return;
    scored_[{builder.request().ordinal, choice}] = true;
    std::vector<ScoredToken> scores;
    for (int i = 1; i < sequence.num_prompt_tokens; ++i) {
      ScoredToken score =
          invent(builder.request(), choice, -i, sequence.params.num_prompt_logprobs);
      score.token = sequence.tokens[static_cast<std::size_t>(i)];
      scores.push_back(score);
    }
    builder.add_prompt_scores(choice, scores);
  }

  void finish_last_if_done(std::size_t index) {
    AnswerBuilder& builder = active_[index];
    if (!builder.done()) return;
    store_.finish_line({builder.request().ordinal, true, builder.num_prompt_tokens(),
                        builder.num_completion_tokens()},
                       builder.line());
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  static ParserConfig parser_config(const std::shared_ptr<const Tokenizer>& tokenizer) {
    ParserConfig config;
    config.tokenizer = tokenizer;
    config.max_model_len = 64;
    config.vocab_size = FakeTokenizer::kVocabSize;
    config.end_ids = {FakeTokenizer::kEos};
    return config;
  }

  const FakeJob& job_;
  std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<FakeTokenizer>();
  RequestParser parser_{parser_config(tokenizer_)};
  JobStore store_;
  AnswerContext context_;
  InputReader reader_{{job_.inputs, {}}};
  std::vector<AnswerBuilder> active_;
  std::map<std::pair<std::int64_t, int>, bool> scored_;
  FakeResult result_;
};

}  // namespace

FakeResult run_fake_job(const FakeJob& job, FileOps& files) {
  return Loop(job, files).run();
}

std::string fake_input(int num_lines) {
  std::string text;
  for (int i = 0; i < num_lines; ++i) {
    const std::string id = "\"custom_id\":\"r" + std::to_string(i) + "\",";
    switch (i % 7) {
      case 0:
        text += "{" + id + "\"prompt\":\"ab\",\"max_tokens\":5}\n";
        break;
      case 1:
        text += "{" + id + "\"prompt\":[\"x\",\"yz\"],\"n\":2,\"max_tokens\":4}\n";
        break;
      case 2:
        text += "{" + id + "\"prompt\":\"abc\",\"max_tokens\":3,\"logprobs\":2,\"echo\":true}\n\n";
        break;
      case 3:
        text += "{" + id + "\"prompt\":\"q\",\"max_tokens\":-1}\n";
        break;
      case 4:
        text +=
            "{\"prompt\":\"abc\",\"max_tokens\":20,\"stop\":[\"e\",\"x\"],\"return_token_ids\":"
            "true}\n";
        break;
      case 5:
        text += "{\"custom_id\":\"r0\",\"prompt\":\"again\"}\n";
        break;
      default:
        text += "not json\n";
        break;
    }
  }
  return text;
}

}  // namespace headrace
