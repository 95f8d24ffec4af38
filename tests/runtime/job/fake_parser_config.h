// What a parser of requests is given in tests: the fake tokenizer, and a chat template that shows
// what it got.
#pragma once

#include <memory>

#include "model/chat/chat_prompt.h"
#include "runtime/job/request_parser.h"
#include "tests/runtime/job/fake_tokenizer.h"

namespace headrace {

inline ParserConfig fake_parser_config() {
  ParserConfig config;
  config.tokenizer = std::make_shared<FakeTokenizer>();
  config.chat = [](const ChatRequest& request) {
    return chat_context(request, {.bos = "<s>", .eos = {}, .unk = {}, .pad = {}},
                        ContentForm::kText)
        .dump();
  };
  config.max_model_len = 4096;
  config.vocab_size = FakeTokenizer::kVocabSize;
  config.end_ids = {FakeTokenizer::kEos};
  return config;
}

}  // namespace headrace
