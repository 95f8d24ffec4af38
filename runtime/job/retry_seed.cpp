#include "runtime/job/retry_seed.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "runtime/job/answer_builder.h"
#include "runtime/job/hash.h"

namespace headrace {
namespace {

constexpr std::size_t kWriteBytes = 4U << 20;

std::filesystem::path temporary(const std::string& path) {
  return path + ".tmp";
}

std::int64_t number_after(std::string_view text, std::string_view name) {
  const std::size_t begin = text.find(name);
  std::int64_t number = 0;
  if (begin == std::string_view::npos) return number;
  text.remove_prefix(begin + name.size());
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Quotes inside strings are escaped, so this text is the answer's own field.
std::string_view usage_of(std::string_view line) {
  const std::size_t begin = line.rfind(R"("usage":{)");
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

}  // namespace

struct RetrySeed::Output {
  std::ifstream stream;
  std::string line;
  bool any = false;
};

RetrySeed::RetrySeed(const JobPaths& paths, FileOps& files, const JournalHeader& header)
    : paths_(paths),
      files_(files),
      key_hash_(hash_of(header.key)),
      partial_(files.create(temporary(paths.partial())), temporary(paths.partial()), files),
      journal_(files.create(temporary(paths.journal())), temporary(paths.journal()), files),
      output_(std::make_unique<Output>()) {
  journal_.append(kJournalMagic);
  add_record(encode_payload(header));
  output_->stream.open(paths.output, std::ios::binary);
  next_output_line();
}

RetrySeed::~RetrySeed() = default;

void RetrySeed::add_record(std::string_view payload) {
  std::string framed;
  append_record(framed, payload, journal_.end());
  journal_.append(framed);
}

void RetrySeed::next_output_line() {
  output_->any = static_cast<bool>(std::getline(output_->stream, output_->line));
}

void RetrySeed::add(const InputLine& line) {
  const std::string begin = "{\"id\":\"" + batch_request_id(key_hash_, line.number) + "\",";
  if (!output_->any || !output_->line.starts_with(begin)) return;  // in the error file
  const std::string& text = output_->line;
  if (is_answer(text)) {
    const std::string_view usage = usage_of(text);
    add_record(encode_payload(FinishedRecord{true, line.ordinal, line.hash, partial_.end(),
                                             static_cast<std::uint32_t>(text.size()), hash64(text),
                                             number_after(usage, R"("prompt_tokens":)"),
                                             number_after(usage, R"("completion_tokens":)")}));
    partial_.append(text);
    partial_.append("\n");
    if (partial_.buffered_bytes() > kWriteBytes) {
      partial_.write();
      journal_.write();
    }
  }
  next_output_line();
}

void RetrySeed::publish() {
  if (output_->any) {
    throw std::invalid_argument(
        fmt::format("{}: holds lines that are not of this input", paths_.output));
  }
  for (AppendFile* file : {&partial_, &journal_}) {
    file->write();
    file->sync();
  }
  // A partial file without a journal beside a summary is swept away; the journal makes it count.
  files_.rename(partial_.path(), paths_.partial());
  files_.sync_directory(std::filesystem::path(paths_.partial()).parent_path());
  files_.rename(journal_.path(), paths_.journal());
  files_.sync_directory(std::filesystem::path(paths_.journal()).parent_path());
}

}  // namespace headrace
