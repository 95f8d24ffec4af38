// The journal's bytes: a magic number, then records with length and checksum. JOURNAL.md describes
// them exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/job/file_ops.h"
#include "runtime/job/job_key.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

struct JournalHeader {
  JobKey key;
  std::int64_t first_start_s = 0;
  bool retry = false;  // failed lines of the job before were taken out
};

/// A line that has its output.
struct FinishedRecord {
  bool answered = false;
  std::int64_t ordinal = 0;
  std::uint64_t line_hash = 0;
  std::int64_t offset = 0;     // in OUTPUT.partial
  std::uint32_t length = 0;    // without line end
  std::uint64_t checksum = 0;  // hash64 of the output line without line end
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_completion_tokens = 0;
};

/// Tokens that a choice gained.
struct TokensRecord {
  std::int64_t ordinal = 0;
  std::uint64_t line_hash = 0;
  std::int32_t choice = 0;
  std::int32_t first = 0;  // tokens of the choice before these
  std::vector<ScoredToken> tokens;
};

/// The caller's counters, a JSON object.
struct CountersRecord {
  std::string json;
};

using JournalRecord = std::variant<JournalHeader, FinishedRecord, TokensRecord, CountersRecord>;

inline constexpr std::string_view kJournalMagic = "HRJOURN\x01";  // the last byte is the version

/// A record's payload: its type and fields, without length and checksum.
std::string encode_payload(const JournalHeader& header);
std::string encode_payload(const FinishedRecord& record);
std::string encode_payload(const CountersRecord& record);

/// A tokens record whose tokens are already encoded, `count` of them.
std::string encode_payload(const TokensRecord& head, std::int32_t count, std::string_view encoded);
void encode_token(const ScoredToken& token, std::string& out);

/// Appends a framed record that will lie at `offset` in the file: the checksum covers that too.
void append_record(std::string& out, std::string_view payload, std::int64_t offset);
/// Bytes of a payload once it is framed.
std::int64_t framed_bytes(std::string_view payload);

/// Throws std::runtime_error where a payload is short, too long or of an unknown type.
JournalRecord decode_payload(std::string_view payload);

/// Calls visit(payload) for each record in turn. Ends at the first that is torn or damaged, and
/// returns where the good records end. Reads as a stream. Throws std::invalid_argument naming the
/// path where the file does not begin like a journal of this version.
std::int64_t scan_journal(const File& file, const std::filesystem::path& path,
                          const std::function<void(std::string_view)>& visit);

}  // namespace headrace
