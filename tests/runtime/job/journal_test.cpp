#include "runtime/job/journal.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "fake_job.h"
#include "faulty_file_ops.h"
#include "temporary_directory.h"

namespace headrace {
namespace {

std::string header_bytes() {
  std::string bytes(kJournalMagic);
  append_record(bytes, encode_payload(JournalHeader{{{"seed", "0", "--seed 0"}}, 7, false}), 8);
  return bytes;
}

std::vector<std::string> payloads_in(const std::string& path, std::int64_t* end = nullptr) {
  std::vector<std::string> all;
  const std::int64_t good = scan_journal(
      open_read(path), path, [&](std::string_view payload) { all.emplace_back(payload); });
  if (end != nullptr) *end = good;
  return all;
}

TEST(Journal, RecordBytesAreAsDocumented) {
  std::string out;
  append_record(out, encode_payload(CountersRecord{"{}"}), 100);
  ASSERT_EQ(out.size(), 11U);
  EXPECT_EQ(out.substr(0, 4), std::string("\x03\0\0\0", 4));
  EXPECT_EQ(out.substr(8), "\x03{}");
  const std::string finished = encode_payload(FinishedRecord{true, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(finished,
            std::string("\x01\x01"
                        "\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"
                        "\x04\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
                        54));
  std::string token;
  encode_token({258, -1.0F, 2, {{1, 0.5F}}}, token);
  EXPECT_EQ(token, std::string("\x02\x01\0\0\0\0\x80\xBF\x02\0\0\0\x01\0\x01\0\0\0\0\0\0\x3F", 22));
}

TEST(Journal, RecordsReadBackAsTheyWere) {
  std::string encoded;
  encode_token({3, -0.5F, 1, {{3, -0.5F}, {4, -2.0F}}}, encoded);
  const auto tokens = std::get<TokensRecord>(
      decode_payload(encode_payload(TokensRecord{9, 8, 2, 5, {}}, 1, encoded)));
  EXPECT_EQ(tokens.ordinal, 9);
  EXPECT_EQ(tokens.line_hash, 8U);
  EXPECT_EQ(tokens.choice, 2);
  EXPECT_EQ(tokens.first, 5);
  ASSERT_EQ(tokens.tokens.size(), 1U);
  EXPECT_EQ(tokens.tokens[0].top[1].first, 4);
  const auto header = std::get<JournalHeader>(
      decode_payload(encode_payload(JournalHeader{{{"a", "b", "c"}, {"d", "e", ""}}, 12, true})));
  EXPECT_TRUE(header.retry);
  EXPECT_EQ(header.first_start_s, 12);
  EXPECT_EQ(header.key[1].value, "e");
}

TEST(Journal, TornTailEndsTheScanAtTheLastWholeRecord) {
  TemporaryDirectory dir;
  std::string bytes = header_bytes();
  std::vector<std::size_t> ends = {bytes.size()};
  for (int i = 0; i < 5; ++i) {
    append_record(bytes,
                  encode_payload(CountersRecord{std::string(static_cast<std::size_t>(i), 'x')}),
                  std::ssize(bytes));
    ends.push_back(bytes.size());
  }
  for (std::size_t cut = kJournalMagic.size(); cut <= bytes.size(); ++cut) {
    std::int64_t good = 0;
    const auto all = payloads_in(dir.write("journal", bytes.substr(0, cut)), &good);
    std::size_t whole = 0;
    while (whole < ends.size() && ends[whole] <= cut) ++whole;
    EXPECT_EQ(all.size(), whole) << cut;
    EXPECT_EQ(good, whole == 0 ? 8 : static_cast<std::int64_t>(ends[whole - 1])) << cut;
  }
}

TEST(Journal, ZeroedTailIsNoRecord) {
  TemporaryDirectory dir;
  EXPECT_EQ(payloads_in(dir.write("journal", header_bytes() + std::string(4096, '\0'))).size(), 1U);
}

TEST(Journal, RecordIsGoodOnlyWhereItWasWritten) {
  TemporaryDirectory dir;
  std::string record;
  append_record(record, encode_payload(CountersRecord{"{}"}), 8);
  EXPECT_EQ(payloads_in(dir.write("journal", std::string(kJournalMagic) + record + record)).size(),
            1U);
}

TEST(Journal, OtherFilesAreRefused) {
  TemporaryDirectory dir;
  for (const std::string& bytes :
       {std::string(), std::string("HRJOURN"), std::string("HRJOURN\x02 more"),
        std::string("{\"custom_id\":1}\n")}) {
    EXPECT_THROW(payloads_in(dir.write("journal", bytes)), std::invalid_argument);
  }
}

TEST(Journal, LengthsAreNotBelievedBeforeTheyAreChecked) {
  std::string payload = encode_payload(TokensRecord{0, 0, 0, 0, {}}, 0x7FFFFFFF, "");
  EXPECT_THROW(decode_payload(payload), std::runtime_error);
  payload = encode_payload(TokensRecord{0, 0, 0, 0, {}}, 0, "trailing");
  EXPECT_THROW(decode_payload(payload), std::runtime_error);
  EXPECT_THROW(decode_payload("\x09"), std::runtime_error);
  EXPECT_THROW(decode_payload(""), std::runtime_error);
  TemporaryDirectory dir;
  const std::string huge = header_bytes() + std::string("\xFF\xFF\xFF\xFF\0\0\0\0zz", 10);
  EXPECT_EQ(payloads_in(dir.write("journal", huge)).size(), 1U);
}

// Any damage to journal or partial file: the job completes with the right bytes, or says clearly
// that it cannot; it never writes a wrong answer.
TEST(Journal, DamagedFilesNeverMakeWrongAnswers) {
  TemporaryDirectory dir;
  dir.write("in", fake_input(21));
  FakeJob job;
  job.inputs = {dir / "in"};
  job.options.paths.output = dir / "out";
  job.options.key = {{"seed", "0", "--seed 0"}};
  FaultyFileOps files(Fault::kNone, 0);
  run_fake_job(job, files);
  const std::string expected = read_file(dir / "out");
  FakeJob stopped = job;
  stopped.options.overwrite = true;
  stopped.stop_after_steps = 6;
  run_fake_job(stopped, files);
  const std::string journal = read_file(dir / "out.journal");
  const std::string partial = read_file(dir / "out.partial");
  std::mt19937 random(12345);
  const auto damage = [&](std::string bytes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, std::string(random() % 9, static_cast<char>(random())));
        break;
      default:
        bytes.replace(at, 64, std::string(64, '\0'));
        break;
    }
    return bytes;
  };
  int completed = 0;
  for (int i = 0; i < 150; ++i) {
    dir.write("out.journal", i % 3 == 0 ? journal : damage(journal));
    dir.write("out.partial", i % 3 == 1 ? partial : damage(partial));
    std::filesystem::remove(dir / "out.summary.json");
    std::filesystem::remove(dir / "out");
    try {
      run_fake_job(job, files);
      ++completed;
      ASSERT_EQ(read_file(dir / "out"), expected) << i;
    } catch (const std::invalid_argument& error) {
      ASSERT_NE(std::string(error.what()).find("out.journal"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(completed, 100);
}

}  // namespace
}  // namespace headrace
