#include "model/tokenizer/unigram_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

constexpr double kUnkPenalty = 10.0;  // SentencePiece's: below the worst score by this

}  // namespace

UnigramModel::UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
                           Options options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : scores_) lowest = std::min(lowest, score);
  unk_score_ = lowest - kUnkPenalty;
  for (unsigned byte = 0; byte < 256; ++byte) {
    fallback_[byte] = vocabulary_->find_or(fmt::format("<0x{:02X}>", byte), -1);
  }
  build_trie();
}

void UnigramModel::build_trie() {
  std::size_t bytes = 0;
  for (TokenId id = 0; id < vocabulary_->size(); ++id) bytes += vocabulary_->token(id).size();
  trie_ = ByteTrie(bytes);
  for (TokenId id = 0; id < vocabulary_->size(); ++id) {
    const std::string_view token = vocabulary_->token(id);
    if (!token.empty()) trie_.insert(token).value = vocabulary_->find_or(token, -1);
  }
}

// ends[i]: the best way to cut word[0, i).
void UnigramModel::find_best_ends(std::string_view word,
                                  std::vector<WordMemory::BestEnd>& ends) const {
  ends.assign(word.size() + 1, {});
  const auto offer = [&ends](std::size_t end, double score, std::size_t start, TokenId id) {
    WordMemory::BestEnd& best = ends[end];
    if (best.start < 0 || score > best.score) {
      best = {.score = score, .start = static_cast<std::int64_t>(start), .id = id};
    }
  };
  for (std::size_t start = 0; start < word.size();) {
    const std::size_t char_end = start + utf8_length(word[start]);
    const double before = ends[start].score;
    bool has_char = false;
    std::uint32_t node = ByteTrie::kRoot;
    for (std::size_t i = start; i < word.size(); ++i) {
      const ByteTrie::Node* next = trie_.child(node, word[i]);
      if (next == nullptr) break;
      node = next->number;
      const TokenId id = next->value;
      if (id < 0) continue;
      offer(i + 1, scores_[static_cast<std::size_t>(id)] + before, start, id);
      has_char = has_char || i + 1 == char_end;
    }
    if (!has_char) {
      if (!options_.unk_id) {
        throw std::invalid_argument("the text has an unknown character, and the model no unk_id");
      }
      offer(char_end, unk_score_ + before, start, *options_.unk_id);
    }
    start = char_end;
  }
}

void UnigramModel::encode_unknown(std::string_view word, WordMemory& memory,
                                  std::vector<TokenId>& out) const {
  find_best_ends(word, memory.ends);
  // From the end backwards; neighbouring unknown pieces are one.
  struct Piece {
    std::size_t begin;
    std::size_t end;
    bool unknown;
  };
  std::vector<Piece> pieces;
  for (std::size_t end = word.size(); end > 0;) {
    const WordMemory::BestEnd& best = memory.ends[end];
    const auto begin = static_cast<std::size_t>(best.start);
    const bool unknown = options_.unk_id && best.id == *options_.unk_id;
    if (unknown && !pieces.empty() && pieces.back().unknown) {
      pieces.back().begin = begin;
    } else {
      pieces.push_back({.begin = begin, .end = end, .unknown = unknown});
    }
    end = begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    append_piece(word.substr(piece->begin, piece->end - piece->begin), out);
  }
}

// A piece by its text: joined unknown characters may happen to be a token.
void UnigramModel::append_piece(std::string_view piece, std::vector<TokenId>& out) const {
  const TokenId id = vocabulary_->find_or(piece, -1);
  if (id >= 0) {
    out.push_back(id);
    return;
  }
  const bool as_bytes =
      options_.byte_fallback && std::all_of(piece.begin(), piece.end(), [this](char byte) {
        return fallback_[static_cast<unsigned char>(byte)] >= 0;
      });
  if (as_bytes) {
    for (const char byte : piece) out.push_back(fallback_[static_cast<unsigned char>(byte)]);
  } else {
    out.push_back(*options_.unk_id);
  }
}

}  // namespace headrace
