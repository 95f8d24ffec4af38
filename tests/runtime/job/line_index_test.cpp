#include "runtime/job/line_index.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "runtime/job/custom_ids.h"
#include "temporary_directory.h"
#include "tests/limits.h"

namespace headrace {
namespace {

// Resident memory of this process, the pages of files apart.
std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

void fill(LineIndex& lines, CustomIds& ids, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    lines.set_seen(i, static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    lines.set_finished(i, i % 3 != 0, {std::int64_t{i} * 100000, static_cast<std::uint32_t>(i)});
    ASSERT_TRUE(ids.insert("request-" + std::to_string(i)));
  }
}

void check(const LineIndex& lines, CustomIds& ids, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(lines.hash(i), static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL);
    ASSERT_EQ(lines.extent(i).offset, std::int64_t{i} * 100000);
    ASSERT_EQ(lines.extent(i).length, static_cast<std::uint32_t>(i));
    ASSERT_EQ(lines.status(i),
              i % 3 != 0 ? LineIndex::Status::kAnswered : LineIndex::Status::kFailed);
    ASSERT_FALSE(ids.insert("request-" + std::to_string(i)));
  }
  EXPECT_EQ(lines.size(), count);
  EXPECT_EQ(lines.status(count), LineIndex::Status::kUnknown);
  EXPECT_EQ(lines.status(count + 10000000), LineIndex::Status::kUnknown);
}

TEST(LineIndex, HundredThousandLinesCostFewBytesEach) {
  TemporaryDirectory dir;
  SpillArena arena(dir.path(), 64U << 20);
  LineIndex lines(arena);
  CustomIds ids(arena);
  fill(lines, ids, 0, 10000);
  const std::int64_t before = resident_bytes();
  fill(lines, ids, 10000, 110000);
  // 20 bytes in the index, 12 / 0.57 at most in the set, and pages begun: a million cost 64 MB at
  // most.
  EXPECT_LT(resident_bytes() - before, resident_limit(100000 * 64));
  check(lines, ids, 110000);
  EXPECT_FALSE(arena.has_spilled());
}

TEST(LineIndex, BeyondTheBudgetItLivesInAFileWithoutAName) {
  TemporaryDirectory dir;
  SpillArena arena(dir.path(), 3U << 20);
  LineIndex lines(arena);
  CustomIds ids(arena);
  fill(lines, ids, 0, 10000);
  EXPECT_FALSE(arena.has_spilled());
  const std::int64_t before = resident_bytes();
  fill(lines, ids, 10000, 200000);
  EXPECT_TRUE(arena.has_spilled());
  EXPECT_LT(resident_bytes() - before, resident_limit(3 << 20));
  EXPECT_TRUE(dir.names().empty());
  check(lines, ids, 200000);
}

TEST(LineIndex, SparseOrdinalsCostOnlyTheirPages) {
  TemporaryDirectory dir;
  SpillArena arena(dir.path(), 64U << 20);
  LineIndex lines(arena);
  lines.set_seen(LineIndex::kMaxLines - 1, 5);
  EXPECT_EQ(lines.hash(LineIndex::kMaxLines - 1), 5U);
  EXPECT_EQ(lines.status(12345), LineIndex::Status::kUnknown);
  EXPECT_THROW(lines.set_seen(LineIndex::kMaxLines, 1), std::length_error);
  EXPECT_THROW(lines.set_seen(-1, 1), std::length_error);
}

TEST(CustomIds, EmptyAndBinaryIdsAreIdsToo) {
  TemporaryDirectory dir;
  SpillArena arena(dir.path(), 64U << 20);
  CustomIds ids(arena);
  EXPECT_TRUE(ids.insert(""));
  EXPECT_TRUE(ids.insert(std::string_view("\0", 1)));
  EXPECT_TRUE(ids.insert(std::string_view("\0\0", 2)));
  EXPECT_FALSE(ids.insert(""));
  EXPECT_FALSE(ids.insert(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace headrace
