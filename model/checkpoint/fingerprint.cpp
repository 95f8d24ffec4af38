#include "model/checkpoint/fingerprint.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

namespace headrace {
namespace {

constexpr std::uint64_t kSampleBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kSamples = 16;  // 1 MiB a file: a fraction of a second even over a network

class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  void add(std::string_view bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }

  // Little-endian, like everything else in these files.
  void add(std::uint64_t number) {
    std::array<char, 8> bytes{};
    for (char& byte : bytes) {
      byte = static_cast<char>(number & 0xffU);
      number >>= 8;
    }
    add(std::string_view(bytes.data(), bytes.size()));
  }

  std::string digits() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

void add_range(const InputFile& file, std::uint64_t begin, std::uint64_t end, Hash& hash) {
  std::string piece;
  while (begin < end) {
    piece.resize(static_cast<std::size_t>(std::min(kSampleBytes, end - begin)));
    file.read(begin, std::as_writable_bytes(std::span(piece)));
    hash.add(piece);
    begin += piece.size();
  }
}

void add_samples(const InputFile& file, std::uint64_t begin, Hash& hash) {
  const std::uint64_t bytes = file.size() - std::min(begin, file.size());
  if (bytes <= kSamples * kSampleBytes) {
    add_range(file, begin, file.size(), hash);
    return;
  }
  const std::uint64_t last = file.size() - kSampleBytes;
  const std::uint64_t step = (last - begin) / (kSamples - 1);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t at = i + 1 == kSamples ? last : begin + i * step;
    add_range(file, at, at + kSampleBytes, hash);
  }
}

}  // namespace

std::string weights_fingerprint(std::string_view config, const std::vector<InputFile>& files,
                                const std::vector<std::uint64_t>& header_bytes) {
  Hash hash;
  hash.add(config.size());
  hash.add(config);
  hash.add(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    hash.add(files[i].size());
    hash.add(header_bytes[i]);
    add_range(files[i], 0, std::min(header_bytes[i], files[i].size()), hash);
    add_samples(files[i], header_bytes[i], hash);
  }
  return hash.digits();
}

}  // namespace headrace
