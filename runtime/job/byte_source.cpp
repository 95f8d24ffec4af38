#include "runtime/job/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/job/file_ops.h"

namespace headrace {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const std::string& path) : path_(path) {
    // Standard input stays the process's own: its duplicate is what gets closed.
    file_ = path == "-" ? File(::dup(STDIN_FILENO)) : open_read(path);
  }

  std::size_t read(std::span<char> out) override {
    while (true) {
      const ssize_t got = ::read(file_.descriptor(), out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw std::system_error(errno, std::generic_category(), "cannot read " + path_);
      }
      bytes_read_ += got;
      return static_cast<std::size_t>(got);
    }
  }

  std::int64_t bytes_read() const override { return bytes_read_; }

 private:
  std::string path_;
  File file_;
  std::int64_t bytes_read_ = 0;
};

constexpr std::size_t kCompressedChunk = 256U << 10;  // a few disk reads' worth

// What both formats share: a chunk of compressed bytes with the part not used yet.
class CompressedSource : public ByteSource {
 public:
  explicit CompressedSource(const std::string& path)
      : path_(path), file_(path), chunk_(kCompressedChunk) {}
  std::int64_t bytes_read() const override {
    return file_.bytes_read() - static_cast<std::int64_t>(pending_.size());
  }

 protected:
  /// False at the end of the file.
  bool fill() {
    if (!pending_.empty()) return true;
    const std::size_t got = file_.read(chunk_);
    pending_ = std::span<char>(chunk_.data(), got);
    return got > 0;
  }
  void consume(std::size_t count) { pending_ = pending_.subspan(count); }
  std::span<char> pending() const { return pending_; }
  [[noreturn]] void fail(std::string_view what) const {
    throw std::invalid_argument(fmt::format("{}: {} near byte {}", path_, what, bytes_read()));
  }

 private:
  std::string path_;
  PlainSource file_;
  std::vector<char> chunk_;
  std::span<char> pending_;
};

class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(const std::string& path) : CompressedSource(path) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<char> out) override {
    while (true) {
      if (!fill()) {
        if (inside_member_) fail("gzip data end too early");
        return 0;
      }
      if (const std::size_t made = step(out); made > 0) return made;
    }
  }

 private:
  std::size_t step(std::span<char> out) {
    inside_member_ = true;
    stream_.next_in = reinterpret_cast<Bytef*>(pending().data());
    stream_.avail_in = static_cast<uInt>(pending().size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    consume(pending().size() - stream_.avail_in);
    if (status == Z_STREAM_END) {
      inside_member_ = false;
      inflateReset(&stream_);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail("damaged gzip data");
    }
    return out.size() - stream_.avail_out;
  }

  z_stream stream_{};
  bool inside_member_ = false;
};

class ZstdSource final : public CompressedSource {
 public:
  explicit ZstdSource(const std::string& path)
      : CompressedSource(path), stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
  }

  std::size_t read(std::span<char> out) override {
    while (true) {
      // Output held inside the decoder comes without further input.
      const bool more = fill();
      if (!more && !inside_frame_) return 0;
      ZSTD_inBuffer in{pending().data(), pending().size(), 0};
      ZSTD_outBuffer made{out.data(), out.size(), 0};
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &made, &in);
      if (ZSTD_isError(status) != 0) {
        fail(fmt::format("damaged zstd data ({})", ZSTD_getErrorName(status)));
      }
      consume(in.pos);
      inside_frame_ = status != 0;
      if (made.pos > 0) return made.pos;
      if (!more && inside_frame_) fail("zstd data end too early");
    }
  }

 private:
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  bool inside_frame_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<GzipSource>(path);
  if (path.ends_with(".zst")) return std::make_unique<ZstdSource>(path);
  return std::make_unique<PlainSource>(path);
}

}  // namespace headrace
