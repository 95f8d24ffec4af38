# headrace_options carries the language level, warnings, sanitizers and the include root.
add_library(headrace_options INTERFACE)
target_include_directories(headrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_features(headrace_options INTERFACE cxx_std_20)
target_compile_definitions(headrace_options INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
# Contraction off: a multiply and an add fuse only where the source says std::fma, so that results
# do not depend on what a compiler finds convenient.
target_compile_options(headrace_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow=local
                                                  -ffp-contract=off)
if(HEADRACE_SANITIZE)
  target_compile_options(headrace_options INTERFACE -fsanitize=${HEADRACE_SANITIZE}
                                                    -fno-omit-frame-pointer)
  target_link_options(headrace_options INTERFACE -fsanitize=${HEADRACE_SANITIZE})
endif()

# headrace_library(name SOURCES ... LINK ... [PRECOMPILE header ...]): the static library
# headrace_<name> of a folder.
function(headrace_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRECOMPILE" ${ARGN})
  add_library(headrace_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(headrace_${name} PUBLIC headrace_options ${ARG_LINK})
  if(ARG_PRECOMPILE)
    target_precompile_headers(headrace_${name} PRIVATE ${ARG_PRECOMPILE})
  endif()
endfunction()

# Sanitizers make tests take longer: so many times as long may they take.
if(HEADRACE_SANITIZE)
  set(HEADRACE_TEST_SLOWNESS 6)
else()
  set(HEADRACE_TEST_SLOWNESS 1)
endif()

# Multiplies a variable that holds seconds.
macro(headrace_time_limit variable)
  math(EXPR ${variable} "${${variable}} * ${HEADRACE_TEST_SLOWNESS}")
endmacro()

set(HEADRACE_SANITIZER_ENVIRONMENT
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp;TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp"
)

# What most tests include, compiled once for all of them: headrace_test_headers, and with JSON
# headrace_json_test_headers.
function(headrace_precompile_test target with_json)
  set(headers headrace_test_headers)
  if(with_json)
    set(headers headrace_json_test_headers)
  endif()
  if(NOT TARGET ${headers})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${headers}.cpp CONTENT "// Headers only.\n")
    add_library(${headers} OBJECT ${PROJECT_BINARY_DIR}/${headers}.cpp)
    target_link_libraries(${headers} PRIVATE headrace_options GTest::gtest)
    target_precompile_headers(${headers} PRIVATE <gtest/gtest.h>)
    if(with_json)
      target_precompile_headers(${headers} PRIVATE <nlohmann/json.hpp>)
    endif()
    target_compile_options(${headers} PRIVATE ${HEADRACE_TEST_OPTIONS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# Tests are compiled more often than their own loops take time.
set(HEADRACE_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O1>)

# headrace_test(name SOURCES ... LINK ... [TIMEOUT s] [LABELS ...] [RANKS n ...]): one GoogleTest
# binary <name>_test. Without RANKS it runs as one process; with RANKS it runs under mpirun once for
# each number, and mpirun's own time limit ends the ranks before CTest's would.
function(headrace_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS;RANKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  headrace_time_limit(ARG_TIMEOUT)
  add_executable(${name}_test ${ARG_SOURCES})
  set(with_json FALSE)
  if("${ARG_LINK}" MATCHES "model|runtime|launch")
    set(with_json TRUE)
  endif()
  headrace_precompile_test(${name}_test ${with_json})
  target_compile_options(${name}_test PRIVATE ${HEADRACE_TEST_OPTIONS})
  if(NOT ARG_RANKS)
    target_link_libraries(${name}_test PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(
      ${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}"
                         ENVIRONMENT "${HEADRACE_SANITIZER_ENVIRONMENT}"
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    return()
  endif()
  target_sources(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/mpi_main.cpp)
  target_link_libraries(${name}_test PRIVATE ${ARG_LINK} GTest::gtest MPI::MPI_CXX)
  math(EXPR inner_timeout "${ARG_TIMEOUT} - 10")
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}.${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                     --timeout ${inner_timeout} $<TARGET_FILE:${name}_test>)
    set_tests_properties(${name}.${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ranks}
                         LABELS "mpi;${ARG_LABELS}" ENVIRONMENT "${HEADRACE_MPI_ENVIRONMENT}"
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endforeach()
endfunction()

# What lets ranks outnumber the cores of a test machine, and root start them in a container.
set(HEADRACE_MPI_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMPI_MCA_mpi_yield_when_idle=1;ASAN_OPTIONS=detect_leaks=0;${HEADRACE_SANITIZER_ENVIRONMENT};HEADRACE_TEST_SLOWNESS=${HEADRACE_TEST_SLOWNESS}"
)

function(headrace_print_summary)
  message(STATUS "Headrace ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}): MPI ${MPI_CXX_VERSION}, "
                 "Boost ${Boost_VERSION_STRING}, "
                 "HDF5 ${HDF5_VERSION}, PCRE2 ${PCRE2_VERSION}, CUDA ${HEADRACE_CUDA_TEXT}, NCCL ${HEADRACE_NCCL_TEXT}, "
                 "tests ${BUILD_TESTING}")
endfunction()
