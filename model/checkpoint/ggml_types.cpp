#include "model/checkpoint/ggml_types.h"

#include <algorithm>
#include <array>

namespace headrace {
namespace {

// Values and bytes of a block as ggml defines them. Numbers that are missing were types once and
// are not any more (4 and 5: Q4_2, Q4_3; 31 to 33 and 36 to 38: repacked forms that no file has).
constexpr std::array kLayouts{
    GgmlTypeLayout{0, "F32", 1, 4},         GgmlTypeLayout{1, "F16", 1, 2},
    GgmlTypeLayout{2, "Q4_0", 32, 18},      GgmlTypeLayout{3, "Q4_1", 32, 20},
    GgmlTypeLayout{6, "Q5_0", 32, 22},      GgmlTypeLayout{7, "Q5_1", 32, 24},
    GgmlTypeLayout{8, "Q8_0", 32, 34},      GgmlTypeLayout{9, "Q8_1", 32, 40},
    GgmlTypeLayout{10, "Q2_K", 256, 84},    GgmlTypeLayout{11, "Q3_K", 256, 110},
    GgmlTypeLayout{12, "Q4_K", 256, 144},   GgmlTypeLayout{13, "Q5_K", 256, 176},
    GgmlTypeLayout{14, "Q6_K", 256, 210},   GgmlTypeLayout{15, "Q8_K", 256, 292},
    GgmlTypeLayout{16, "IQ2_XXS", 256, 66}, GgmlTypeLayout{17, "IQ2_XS", 256, 74},
    GgmlTypeLayout{18, "IQ3_XXS", 256, 98}, GgmlTypeLayout{19, "IQ1_S", 256, 50},
    GgmlTypeLayout{20, "IQ4_NL", 32, 18},   GgmlTypeLayout{21, "IQ3_S", 256, 110},
    GgmlTypeLayout{22, "IQ2_S", 256, 82},   GgmlTypeLayout{23, "IQ4_XS", 256, 136},
    GgmlTypeLayout{24, "I8", 1, 1},         GgmlTypeLayout{25, "I16", 1, 2},
    GgmlTypeLayout{26, "I32", 1, 4},        GgmlTypeLayout{27, "I64", 1, 8},
    GgmlTypeLayout{28, "F64", 1, 8},        GgmlTypeLayout{29, "IQ1_M", 256, 56},
    GgmlTypeLayout{30, "BF16", 1, 2},       GgmlTypeLayout{34, "TQ1_0", 256, 54},
    GgmlTypeLayout{35, "TQ2_0", 256, 66},   GgmlTypeLayout{39, "MXFP4", 32, 17},
    GgmlTypeLayout{40, "NVFP4", 64, 36},    GgmlTypeLayout{41, "Q1_0", 128, 18},
};

}  // namespace

const GgmlTypeLayout* ggml_type_layout(std::uint32_t type) {
  const auto* found = std::find_if(kLayouts.begin(), kLayouts.end(),
                                   [type](const GgmlTypeLayout& l) { return l.type == type; });
  return found == kLayouts.end() ? nullptr : found;
}

}  // namespace headrace
