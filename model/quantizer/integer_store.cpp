#include "model/quantizer/integer_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace headrace {

IntegerStore::IntegerStore(const std::filesystem::path& directory) {
  std::string name = (directory / ".headrace-integers-XXXXXX").string();
  descriptor_ = mkstemp(name.data());
  if (descriptor_ < 0) {
    throw std::invalid_argument(fmt::format("{}: no file can be made in it ({})",
                                            directory.string(), std::strerror(errno)));
  }
  unlink(name.c_str());
}

IntegerStore::~IntegerStore() {
  close(descriptor_);
}

void IntegerStore::add(const std::string& tensor, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(end_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw std::runtime_error(
          fmt::format("writing the integers of {}: {}", tensor, std::strerror(errno)));
    }
    done += static_cast<std::size_t>(count);
  }
  places_[tensor] = {end_, bytes.size()};
  end_ += bytes.size();
}

void IntegerStore::give(const std::string& tensor, const ByteSink& sink) const {
  constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
  const Place& place = places_.at(tensor);
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < place.bytes; at += piece.size()) {
    piece.resize(std::min(kPiece, place.bytes - at));
    for (std::size_t done = 0; done < piece.size();) {
      const ssize_t count = pread(descriptor_, piece.data() + done, piece.size() - done,
                                  static_cast<off_t>(place.offset + at + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        throw std::runtime_error(
            fmt::format("reading the integers of {}: {}", tensor, std::strerror(errno)));
      }
      done += static_cast<std::size_t>(count);
    }
    sink(piece);
  }
}

}  // namespace headrace
