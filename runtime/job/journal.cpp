#include "runtime/job/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runtime/job/hash.h"

namespace headrace {
namespace {

enum class RecordType : std::uint8_t { kHeader = 0, kFinished = 1, kTokens = 2, kCounters = 3 };

constexpr std::size_t kFrameBytes = 8;   // length and checksum
constexpr std::size_t kTokenBytes = 14;  // id, log-probability, rank, number of alternatives
constexpr std::size_t kAlternativeBytes = 8;

template <std::integral Number>
void put(std::string& out, Number value) {
  const auto bits = static_cast<std::make_unsigned_t<Number>>(value);
  for (std::size_t i = 0; i < sizeof(bits); ++i) out += static_cast<char>(bits >> (8 * i));
}

template <std::integral Number>
Number get(std::string_view bytes) {
  std::make_unsigned_t<Number> bits = 0;
  for (std::size_t i = 0; i < sizeof(bits); ++i) {
    bits |= static_cast<std::make_unsigned_t<Number>>(
        static_cast<std::make_unsigned_t<Number>>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  }
  return static_cast<Number>(bits);
}

std::uint32_t checksum_of(std::string_view payload, std::int64_t offset) {
  return static_cast<std::uint32_t>(hash64(payload, static_cast<std::uint64_t>(offset)));
}

// Takes fields from the front of a payload.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral Number>
  Number take() {
    need(sizeof(Number));
    const auto value = get<Number>(bytes_);
    bytes_.remove_prefix(sizeof(Number));
    return value;
  }
  float take_float() { return std::bit_cast<float>(take<std::uint32_t>()); }
  std::string_view rest() { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  void need(std::size_t count) const {
    if (bytes_.size() < count) throw std::runtime_error("a journal record is too short");
  }
  void end() const {
    if (!bytes_.empty()) throw std::runtime_error("a journal record is too long");
  }

 private:
  std::string_view bytes_;
};

JournalHeader decode_header(PayloadReader reader) {
  const auto json = nlohmann::json::parse(reader.rest());
  JournalHeader header;
  header.first_start_s = json.at("first_start").get<std::int64_t>();
  header.retry = json.at("retry").get<bool>();
  for (const auto& part : json.at("key")) {
    header.key.push_back({part.at("name").get<std::string>(), part.at("value").get<std::string>(),
                          part.at("option").get<std::string>()});
  }
  return header;
}

FinishedRecord decode_finished(PayloadReader reader) {
  FinishedRecord record;
  record.answered = reader.take<std::uint8_t>() != 0;
  record.ordinal = reader.take<std::int64_t>();
  record.line_hash = reader.take<std::uint64_t>();
  record.offset = reader.take<std::int64_t>();
  record.length = reader.take<std::uint32_t>();
  record.checksum = reader.take<std::uint64_t>();
  record.num_prompt_tokens = reader.take<std::int64_t>();
  record.num_completion_tokens = reader.take<std::int64_t>();
  reader.end();
  return record;
}

ScoredToken decode_token(PayloadReader& reader) {
  ScoredToken token;
  token.token = reader.take<std::int32_t>();
  token.logprob = reader.take_float();
  token.rank = reader.take<std::int32_t>();
  const auto num_top = reader.take<std::uint16_t>();
  reader.need(num_top * kAlternativeBytes);
  token.top.reserve(num_top);
  for (int i = 0; i < num_top; ++i) {
    const auto id = reader.take<std::int32_t>();
    token.top.emplace_back(id, reader.take_float());
  }
  return token;
}

TokensRecord decode_tokens(PayloadReader reader) {
  TokensRecord record;
  record.ordinal = reader.take<std::int64_t>();
  record.line_hash = reader.take<std::uint64_t>();
  record.choice = reader.take<std::int32_t>();
  record.first = reader.take<std::int32_t>();
  const auto count = reader.take<std::uint32_t>();
  reader.need(count * kTokenBytes);
  record.tokens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) record.tokens.push_back(decode_token(reader));
  reader.end();
  return record;
}

std::string begin_payload(RecordType type) {
  return std::string(1, static_cast<char>(type));
}

}  // namespace

std::string encode_payload(const JournalHeader& header) {
  nlohmann::ordered_json json;
  json["first_start"] = header.first_start_s;
  json["retry"] = header.retry;
  json["key"] = nlohmann::ordered_json::array();
  for (const JobKeyPart& part : header.key) {
    json["key"].push_back({{"name", part.name}, {"value", part.value}, {"option", part.option}});
  }
  return begin_payload(RecordType::kHeader) + json.dump();
}

std::string encode_payload(const FinishedRecord& record) {
  std::string out = begin_payload(RecordType::kFinished);
  put(out, static_cast<std::uint8_t>(record.answered ? 1 : 0));
  put(out, record.ordinal);
  put(out, record.line_hash);
  put(out, record.offset);
  put(out, record.length);
  put(out, record.checksum);
  put(out, record.num_prompt_tokens);
  put(out, record.num_completion_tokens);
  return out;
}

std::string encode_payload(const CountersRecord& record) {
  return begin_payload(RecordType::kCounters) + record.json;
}

std::string encode_payload(const TokensRecord& head, std::int32_t count, std::string_view encoded) {
  std::string out = begin_payload(RecordType::kTokens);
  put(out, head.ordinal);
  put(out, head.line_hash);
  put(out, head.choice);
  put(out, head.first);
  put(out, count);
  out += encoded;
  return out;
}

void encode_token(const ScoredToken& token, std::string& out) {
  put(out, token.token);
  put(out, std::bit_cast<std::uint32_t>(token.logprob));
  put(out, token.rank);
  put(out, static_cast<std::uint16_t>(token.top.size()));
  for (const auto& [id, logprob] : token.top) {
    put(out, id);
    put(out, std::bit_cast<std::uint32_t>(logprob));
  }
}

void append_record(std::string& out, std::string_view payload, std::int64_t offset) {
  put(out, static_cast<std::uint32_t>(payload.size()));
  put(out, checksum_of(payload, offset));
  out += payload;
}

std::int64_t framed_bytes(std::string_view payload) {
  return static_cast<std::int64_t>(payload.size() + kFrameBytes);
}

JournalRecord decode_payload(std::string_view payload) {
  PayloadReader reader(payload);
  try {
    switch (static_cast<RecordType>(reader.take<std::uint8_t>())) {
      case RecordType::kHeader:
        return decode_header(reader);
      case RecordType::kFinished:
        return decode_finished(reader);
      case RecordType::kTokens:
        return decode_tokens(reader);
      case RecordType::kCounters:
        return CountersRecord{std::string(reader.rest())};
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("a journal header cannot be read: {}", error.what()));
  }
  throw std::runtime_error("a journal record is of an unknown type");
}

std::int64_t scan_journal(const File& file, const std::filesystem::path& path,
                          const std::function<void(std::string_view)>& visit) {
  const std::int64_t size = size_of(file);
  std::array<char, kJournalMagic.size()> magic{};
  if (!read_at(file, 0, magic) || std::string_view(magic.data(), magic.size()) != kJournalMagic) {
    throw std::invalid_argument(fmt::format(
        "{}: not a journal of this version of headrace; --overwrite starts afresh", path.string()));
  }
  constexpr std::int64_t kWindow = 1 << 20;
  std::string window;
  std::int64_t window_begin = static_cast<std::int64_t>(magic.size());
  std::int64_t position = window_begin;
  // Makes `count` bytes at position readable; false where the file ends before.
  const auto load = [&](std::int64_t count) {
    if (count > size - position) return false;
    if (position + count <= window_begin + std::ssize(window)) return true;
    window_begin = position;
    window.resize(static_cast<std::size_t>(std::min(size - position, std::max(count, kWindow))));
    return read_at(file, window_begin, window);
  };
  const auto bytes = [&](std::int64_t count) {
    return std::string_view(window).substr(static_cast<std::size_t>(position - window_begin),
                                           static_cast<std::size_t>(count));
  };
  while (load(kFrameBytes)) {
    const auto length = static_cast<std::int64_t>(get<std::uint32_t>(bytes(kFrameBytes)));
    const auto checksum = get<std::uint32_t>(bytes(kFrameBytes).substr(4));
    const std::int64_t whole = static_cast<std::int64_t>(kFrameBytes) + length;
    if (length == 0 || !load(whole)) break;
    const std::string_view payload = bytes(whole).substr(kFrameBytes);
    if (checksum_of(payload, position) != checksum) break;
    visit(payload);
    position += whole;
  }
  return position;
}

}  // namespace headrace
