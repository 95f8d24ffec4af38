// Finished tensors that wait on disk until the checkpoint is written, whose order is another one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "model/quantizer/matrix_quantizer.h"

namespace headrace {

class IntegerStore {
 public:
  /// Makes a file in the directory that goes with the object. Throws std::invalid_argument where it
  /// cannot.
  explicit IntegerStore(const std::filesystem::path& directory);
  ~IntegerStore();
  IntegerStore(const IntegerStore&) = delete;
  IntegerStore& operator=(const IntegerStore&) = delete;

  /// Throws std::runtime_error where the system refuses.
  void add(const std::string& tensor, std::span<const std::byte> bytes);
  bool has(const std::string& tensor) const { return places_.contains(tensor); }
  void give(const std::string& tensor, const ByteSink& sink) const;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  int descriptor_ = -1;
  std::uint64_t end_ = 0;
  std::map<std::string, Place> places_;
};

}  // namespace headrace
