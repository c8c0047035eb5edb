// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace beer {

// Names of the functions that the virtual calls of an object really reach, by its virtual table. A base class that
// gets a new virtual function makes it longer: so a layer cannot forget to pass one on.
template <typename T>
std::vector<std::string> VirtualFunctions(const T& object) {
    void* const* table = *reinterpret_cast<void* const* const*>(&object);
    Dl_info info{};
    const ElfW(Sym)* symbol = nullptr;
    if (!dladdr1(table, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) || !symbol)
        throw std::runtime_error("no symbol for the virtual table");
    std::vector<std::string> names;
    const size_t count = symbol->st_size / sizeof(void*) - 2; // offset to top, type
    for (size_t i = 0; i < count; ++i) {
        if (!dladdr(table[i], &info) || !info.dli_sname) throw std::runtime_error("no symbol for a function");
        int status = 0;
        const std::unique_ptr<char, void (*)(void*)> name(
            abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), free);
        names.push_back(status == 0 ? name.get() : info.dli_sname);
    }
    return names;
}

} // namespace beer
