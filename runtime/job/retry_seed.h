// --retry-failed on a finished job: OUTPUT's answers become the OUTPUT.partial and journal of a job
// in which only the failed lines are left to do.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/job/append_file.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/job_store.h"
#include "runtime/job/journal.h"

namespace headrace {

class RetrySeed {
 public:
  RetrySeed(const JobPaths& paths, FileOps& files, const JournalHeader& header);
  ~RetrySeed();
  RetrySeed(const RetrySeed&) = delete;
  RetrySeed& operator=(const RetrySeed&) = delete;

  /// Every line of the input, in order: takes over its answer where OUTPUT has one.
  void add(const InputLine& line);
  /// The job is unfinished from here on.
  void publish();

 private:
  void add_record(std::string_view payload);
  void next_output_line();

  const JobPaths& paths_;
  FileOps& files_;
  Hash128 key_hash_;
  AppendFile partial_;
  AppendFile journal_;
  struct Output;
  std::unique_ptr<Output> output_;
};

}  // namespace headrace
