# Compiles a BPF program and makes the header that libbpf's users load it by: NAME.skel.h in OUTPUT.
find_program(CLANG_BPF NAMES clang clang-19 clang-16 clang-14)
find_program(BPFTOOL bpftool PATHS /usr/sbin)
find_program(LLVM_STRIP NAMES llvm-strip llvm-strip-19 llvm-strip-16 llvm-strip-14)
pkg_check_modules(LIBBPF libbpf>=1.0)

if(CLANG_BPF AND BPFTOOL AND LLVM_STRIP AND LIBBPF_FOUND)
  set(PASSING_BPF_FOUND ON)
else()
  message(STATUS "no switch in the kernel: clang, llvm, bpftool or libbpf-dev is missing (tools/install-deps)")
endif()

function(bpf_skeleton source name output)
  set(object ${output}/${name}.bpf.o)
  set(stripped ${output}/${name}.stripped.bpf.o)
  # Debug information becomes the types that the kernel asks for; the rest of it is not embedded.
  add_custom_command(OUTPUT ${output}/${name}.skel.h
    COMMAND ${CLANG_BPF} -O2 -g -Wall -Wextra $<$<BOOL:${PASSING_WERROR}>:-Werror> -target bpf -mcpu=v3
      -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -MD -MF ${object}.d -MT ${output}/${name}.skel.h
      -c ${source} -o ${object}
    COMMAND ${LLVM_STRIP} -g ${object} -o ${stripped}
    # What a generator writes is not ours to lint.
    COMMAND ${CMAKE_COMMAND} -E echo "/* NOLINTBEGIN */" > ${output}/${name}.skel.h
    COMMAND ${BPFTOOL} gen skeleton ${stripped} name ${name}_bpf >> ${output}/${name}.skel.h
    COMMAND ${CMAKE_COMMAND} -E echo "/* NOLINTEND */" >> ${output}/${name}.skel.h
    DEPENDS ${source} DEPFILE ${object}.d COMMAND_EXPAND_LISTS VERBATIM)
endfunction()
