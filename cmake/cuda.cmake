# The GPU backend: built where the CUDA toolkit is found, tested on the CPU (tests/cuda_emulator).
# A macro for the language has to run at the top level, so this file is included there.
set(HEADRACE_CUDA AUTO CACHE STRING "GPU backend: AUTO (where the CUDA toolkit is found), ON, OFF")
set_property(CACHE HEADRACE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT HEADRACE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "HEADRACE_CUDA is '${HEADRACE_CUDA}'; it may be AUTO, ON or OFF")
endif()

set(HEADRACE_CUDA_FOUND FALSE)
set(HEADRACE_CUDA_TEXT "off")
if(NOT HEADRACE_CUDA STREQUAL OFF)
  # Before the language is enabled, or CMake takes the compiler's default. The last entry is code that
  # a driver compiles for GPUs newer than these.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
  endif()
  # Programs say themselves which runtime they link: the real one, or that of the tests.
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.8)  # the first that knows sm_100
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND TARGET CUDA::cublasLt)
    set(HEADRACE_CUDA_FOUND TRUE)
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
    set(HEADRACE_CUDA_TEXT "${CUDAToolkit_VERSION} (${architectures})")
  elseif(HEADRACE_CUDA STREQUAL ON)
    message(FATAL_ERROR "HEADRACE_CUDA is ON, but nvcc, the CUDA runtime (12.8 or later) or cuBLASLt "
                        "was not found: nvcc '${CMAKE_CUDA_COMPILER}', "
                        "toolkit '${CUDAToolkit_VERSION}'")
  else()
    set(HEADRACE_CUDA_TEXT "not found")
  endif()
endif()

# NCCL's header, for which there is no package file: between the toolkit's files, or the system's. The
# library is loaded when a job first needs it (comm/cuda/load_nccl.cpp).
set(HEADRACE_NCCL_FOUND FALSE)
set(HEADRACE_NCCL_TEXT "off")
if(HEADRACE_CUDA_FOUND)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{NCCL_HOME}/include)
  set(HEADRACE_NCCL_TEXT "not found")
  if(NCCL_INCLUDE_DIR)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) [0-9]+")
    list(TRANSFORM lines REPLACE "^#define NCCL_[A-Z]+ ([0-9]+).*" "\\1")
    list(JOIN lines "." NCCL_VERSION)
    # 2.26: the launch order of several communicators is that of the calls.
    if(NCCL_VERSION VERSION_GREATER_EQUAL 2.26)
      set(HEADRACE_NCCL_FOUND TRUE)
      set(HEADRACE_NCCL_TEXT ${NCCL_VERSION})
    else()
      set(HEADRACE_NCCL_TEXT "${NCCL_VERSION}, too old (2.26 is needed)")
    endif()
  endif()
endif()

if(HEADRACE_CUDA_FOUND)
  # CMake 3.25 does not know nvcc's option for C++20.
  foreach(kind STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
  set(CMAKE_CUDA_STANDARD 20)
  # Beside each object a report of what the assembler made of its kernels (tests/cuda_gates).
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/nvcc_report.sh ${CCACHE_PROGRAM})
endif()
