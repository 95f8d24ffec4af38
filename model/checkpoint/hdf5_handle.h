// HDF5 ids with an owner, and the check of its calls. HDF5 keeps global state without a lock: only
// one thread at a time may use what is declared here.
#pragma once

#include <hdf5.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace headrace {

/// A call that failed: what() names it, HDF5's text and the place.
class Hdf5Error : public std::runtime_error {
 public:
  Hdf5Error(const std::string& what, std::string cause)
      : std::runtime_error(what), cause_(std::move(cause)) {}

  /// HDF5's text alone.
  const std::string& cause() const { return cause_; }

 private:
  std::string cause_;
};

/// Throws Hdf5Error.
[[noreturn]] void fail_hdf5(const char* call, const char* file, int line);

/// HDF5's results are negative where a call failed. Returns the others.
template <typename T>
T check_hdf5(T result, const char* call, const char* file, int line) {
  if (result < 0) fail_hdf5(call, file, line);
  return result;
}

/// Errors become exceptions: HDF5 itself prints nothing from here on.
void keep_hdf5_quiet();

/// The version of the library that is loaded at run time: "1.10.8".
std::string hdf5_version();

/// Owns an id of any kind. Move-only.
class Hdf5Id {
 public:
  Hdf5Id() = default;
  explicit Hdf5Id(hid_t id) : id_(id) {}
  ~Hdf5Id() { reset(); }
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;

  hid_t get() const { return id_; }
  /// Closes what the id stands for, and says so where that fails.
  void close() { check_hdf5(H5Idec_ref(std::exchange(id_, -1)), "H5Idec_ref", __FILE__, __LINE__); }

 private:
  void reset() {
    if (id_ >= 0) H5Idec_ref(std::exchange(id_, -1));
  }

  hid_t id_ = -1;
};

}  // namespace headrace

#define HR_HDF5(call) ::headrace::check_hdf5((call), #call, __FILE__, __LINE__)
