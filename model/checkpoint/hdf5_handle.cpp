#include "model/checkpoint/hdf5_handle.h"

#include <fmt/format.h>

namespace headrace {
namespace {

// The innermost entry of the error stack, which comes first on a walk upwards: it says why.
herr_t take_cause(unsigned n, const H5E_error2_t* entry, void* cause) {
  if (n == 0 && entry->desc != nullptr) *static_cast<std::string*>(cause) = entry->desc;
  return 0;
}

}  // namespace

void fail_hdf5(const char* call, const char* file, int line) {
  std::string cause = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, &cause);
  throw Hdf5Error(fmt::format("HDF5: {} ({} at {}:{})", cause, call, file, line), cause);
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  HR_HDF5(H5get_libversion(&major, &minor, &release));
  return fmt::format("{}.{}.{}", major, minor, release);
}

void keep_hdf5_quiet() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

}  // namespace headrace
