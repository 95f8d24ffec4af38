// Stands in for choose_kernels_x86.cpp on other processors, which have the portable kernels only.
#include <stdexcept>
#include <string>

#include "kernels/cpu/kernel_table.h"

namespace headrace {

std::string_view cpu_features() {
  return "none";
}

const KernelTable& choose_kernels(std::string_view isa, DType compute_dtype) {
  if (isa == "auto" || isa == "no_amx" || isa == "portable") return portable_kernels(compute_dtype);
  throw std::invalid_argument("isa '" + std::string(isa) + "': this CPU offers auto, portable");
}

const Int8Kernels& choose_int8_kernels(std::string_view /*isa*/, DType compute_dtype) {
  return portable_int8_kernels(compute_dtype);
}

}  // namespace headrace
