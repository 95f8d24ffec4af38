#include "runtime/job/input_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>

#include "runtime/job/hash.h"
#include "temporary_directory.h"

namespace headrace {
namespace {

struct Seen {
  std::int64_t ordinal, number, file_line;
  std::string text;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> read_all(const InputOptions& options) {
  InputReader reader(options);
  std::vector<Seen> seen;
  InputLine line;
  while (reader.next(line)) seen.push_back({line.ordinal, line.number, line.file_line, line.text});
  return seen;
}

std::vector<Seen> read_all(const std::string& path) {
  return read_all(InputOptions{{path}, {}});
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

TEST(InputReader, NumbersLinesAsAPersonCountsThem) {
  TemporaryDirectory dir;
  EXPECT_EQ(read_all(dir.write("in", "a\nb\n")),
            (std::vector<Seen>{{0, 1, 1, "a"}, {1, 2, 2, "b"}}));
}

TEST(InputReader, LastLineNeedsNoLineEnd) {
  TemporaryDirectory dir;
  EXPECT_EQ(read_all(dir.write("in", "a\nb")), (std::vector<Seen>{{0, 1, 1, "a"}, {1, 2, 2, "b"}}));
}

TEST(InputReader, BlankLinesAreSkippedButCounted) {
  TemporaryDirectory dir;
  EXPECT_EQ(read_all(dir.write("in", "\n  \t\na\n\r\n\nb\n\n")),
            (std::vector<Seen>{{0, 3, 3, "a"}, {1, 6, 6, "b"}}));
}

TEST(InputReader, WindowsLineEndsAndByteOrderMarksAreNotText) {
  TemporaryDirectory dir;
  EXPECT_EQ(read_all(dir.write("in", "\xEF\xBB\xBF{}\r\nx\r\n")),
            (std::vector<Seen>{{0, 1, 1, "{}"}, {1, 2, 2, "x"}}));
}

TEST(InputReader, EmptyFileHasNoLines) {
  TemporaryDirectory dir;
  EXPECT_TRUE(read_all(dir.write("in", "")).empty());
}

TEST(InputReader, SeveralFilesCountOn) {
  TemporaryDirectory dir;
  const InputOptions options{{dir.write("1", "a\nb"),
                              dir.write("2",
                                        "\n\xEF\xBB\xBF"
                                        "c\n"),
                              dir.write("3", "d\n")},
                             {}};
  InputReader reader(options);
  InputLine line;
  std::vector<std::string> places;
  std::vector<std::int64_t> numbers;
  while (reader.next(line)) {
    places.push_back(std::filesystem::path(reader.place(line)).filename().string());
    numbers.push_back(line.number);
  }
  EXPECT_EQ(places, (std::vector<std::string>{"1, line 1", "1, line 2", "2, line 2", "3, line 1"}));
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 2, 4, 5}));
}

TEST(InputReader, ShardsTakeLineNumbersModuloTheirCount) {
  TemporaryDirectory dir;
  const std::string path = dir.write("in", "0\n1\n\n3\n4\n5\n6\n");
  const auto shard = [&](std::int64_t index) {
    std::vector<std::string> texts;
    for (const Seen& seen : read_all(InputOptions{{path}, {index, 3}})) texts.push_back(seen.text);
    return texts;
  };
  EXPECT_EQ(shard(0), (std::vector<std::string>{"0", "3", "6"}));
  EXPECT_EQ(shard(1), (std::vector<std::string>{"1", "4"}));
  EXPECT_EQ(shard(2), (std::vector<std::string>{"5"}));
}

TEST(InputReader, ShardTextIsChecked) {
  EXPECT_EQ(parse_shard("3/4").index, 3);
  for (const char* bad : {"", "1", "4/4", "-1/4", "0/0", "0/4x", "a/b", "0/", "/4", " 0/4"}) {
    EXPECT_THROW(parse_shard(bad), std::invalid_argument) << bad;
  }
}

TEST(InputReader, CompressedFilesReadLikePlainOnes) {
  TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  const auto plain = read_all(dir.write("in", text));
  ASSERT_EQ(plain.size(), 100000U);
  EXPECT_EQ(read_all(dir.write("in.gz", gzip(text))), plain);
  EXPECT_EQ(read_all(dir.write("in.zst", zstd(text))), plain);
  // Members and frames follow each other, cut inside a line.
  const std::string head = text.substr(0, 1234567);
  const std::string tail = text.substr(1234567);
  EXPECT_EQ(read_all(dir.write("in2.gz", gzip(head) + gzip(tail))), plain);
  EXPECT_EQ(read_all(dir.write("in2.zst", zstd(head) + zstd(tail))), plain);
}

TEST(InputReader, DamagedCompressedDataNameTheFile) {
  TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i * 7919) + "\n";
  for (const std::string& suffix : {std::string(".gz"), std::string(".zst")}) {
    const std::string good = suffix == ".gz" ? gzip(text) : zstd(text);
    std::string flipped = good;
    flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 0x55);
    for (const std::string& bad : {good.substr(0, good.size() - 1), good.substr(0, 20), flipped,
                                   std::string("not compressed at all\n"), good + "garbage"}) {
      const std::string path = dir.write("bad" + suffix, bad);
      try {
        read_all(path);
        // zstd without a checksum may decode a flipped byte: then lines differ, but nothing breaks.
        EXPECT_TRUE(suffix == ".zst" && bad == flipped);
      } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    }
  }
}

TEST(InputReader, BombIsOneBadLineAndCostsNoMemory) {
  TemporaryDirectory dir;
  const std::string endless = "first\n" + std::string(64U << 20, 'x') + "\nlast\n";
  for (const std::string& path :
       {dir.write("in.gz", gzip(endless)), dir.write("in.zst", zstd(endless))}) {
    EXPECT_LT(std::filesystem::file_size(path), 100000U);
    InputReader reader({{path}, {}, 1U << 20});
    InputLine line;
    ASSERT_TRUE(reader.next(line));
    ASSERT_TRUE(reader.next(line));
    EXPECT_TRUE(line.too_long);
    EXPECT_TRUE(line.text.empty());
    EXPECT_LE(line.text.capacity(), 4U << 20);
    EXPECT_EQ(line.number, 2);
    ASSERT_TRUE(reader.next(line));
    EXPECT_FALSE(line.too_long);
    EXPECT_EQ(line.text, "last");
    EXPECT_FALSE(reader.next(line));
  }
}

TEST(InputReader, LineOfExactlyTheLimitIsTaken) {
  TemporaryDirectory dir;
  InputReader reader({{dir.write("in", "1234\n12345\n")}, {}, 4});
  InputLine line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_FALSE(line.too_long);
  ASSERT_TRUE(reader.next(line));
  EXPECT_TRUE(line.too_long);
}

TEST(InputReader, HashCoversContentAndNumber) {
  TemporaryDirectory dir;
  const auto hashes = [&](const std::string& text, std::size_t limit = 64) {
    InputReader reader({{dir.write("in", text)}, {}, limit});
    std::vector<std::uint64_t> all;
    InputLine line;
    while (reader.next(line)) all.push_back(line.hash);
    return all;
  };
  EXPECT_EQ(hashes("a\nb\n"), hashes("a\r\nb"));
  EXPECT_EQ(hashes("a\nb\n")[0], hash64("a", 0));
  EXPECT_EQ(hashes("a\nb\n")[1], hash64("b", 1));
  EXPECT_NE(hashes("a\na\n")[0], hashes("a\na\n")[1]);
  EXPECT_EQ(hashes("12345678\n", 4)[0], hashes("12345678\n")[0]);
  EXPECT_NE(hashes("12345678\n", 4)[0], hashes("12345679\n", 4)[0]);
}

TEST(InputReader, HashesAreFixedForEver) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2ULL);
  EXPECT_EQ(hex(hash128("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash64("line 1"), 0x3b5b7a51082635c9ULL);
  EXPECT_EQ(hex(hash128("request-1")), "fb3405c57319927e8e8b812cfece5b0d");
}

TEST(InputReader, ProgressCountsStoredBytes) {
  TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += std::to_string(i) + "\n";
  const std::string packed = gzip(text);
  InputReader reader({{dir.write("a", "x\n"), dir.write("b.gz", packed)}, {}});
  EXPECT_EQ(reader.bytes_total(), static_cast<std::int64_t>(packed.size()) + 2);
  InputLine line;
  std::int64_t before = 0;
  while (reader.next(line)) {
    ASSERT_GE(reader.bytes_read(), before);
    before = reader.bytes_read();
  }
  EXPECT_EQ(reader.bytes_read(), reader.bytes_total());
}

TEST(InputReader, StandardInputIsReadAndItsSizeUnknown) {
  TemporaryDirectory dir;
  const int saved = ::dup(STDIN_FILENO);
  ASSERT_NE(::freopen(dir.write("in", "a\nb\n").c_str(), "r", stdin), nullptr);
  InputReader reader({{"-"}, {}});
  EXPECT_EQ(reader.bytes_total(), 0);
  InputLine line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(reader.place(line), "standard input, line 1");
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.text, "b");
  EXPECT_FALSE(reader.next(line));
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

TEST(CheckInputs, NamesWhatCannotBeRead) {
  TemporaryDirectory dir;
  const std::string good = dir.write("good", "x\n");
  EXPECT_NO_THROW(check_inputs({good, "-"}, {dir / "out"}));
  EXPECT_THROW(check_inputs({}, {}), std::invalid_argument);
  EXPECT_THROW(check_inputs({dir / "missing"}, {}), std::invalid_argument);
  EXPECT_THROW(check_inputs({dir.path().string()}, {}), std::invalid_argument);
  EXPECT_THROW(check_inputs({"-", good, "-"}, {}), std::invalid_argument);
}

TEST(CheckInputs, OutputIsNoInputUnderAnyName) {
  TemporaryDirectory dir;
  const std::string good = dir.write("good", "x\n");
  std::filesystem::create_symlink(good, dir / "link");
  std::filesystem::create_hard_link(good, dir / "hard");
  for (const std::string& output : {good, dir / "link", dir / "hard", dir / "./good"}) {
    EXPECT_THROW(check_inputs({good}, {output}), std::invalid_argument) << output;
  }
}

}  // namespace
}  // namespace headrace
