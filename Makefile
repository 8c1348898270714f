# eflops: one Makefile, not recursive. `make V=1` shows the commands, `make help` the targets.
#
# The packager's variables are appended to, never replaced: CC CXX CXXFLAGS CFLAGS LDFLAGS PREFIX LIBDIR INCLUDEDIR BINDIR
# MANDIR DESTDIR. SAN=address|thread|fuzzer selects a sanitizer; each configuration has its own folder under build/.

PREFIX     ?= /usr/local
MULTIARCH  := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
VERSION    := $(shell sed -n 's/^\#define EF_VERSION_M[AI][JN]OR \([0-9]*\)/\1/p;s/^\#define EF_VERSION_PATCH \([0-9]*\)/\1/p' include/eflops/eflops.h | paste -sd.)
SOVER      := 0
WERROR     ?=

ifeq ($(origin CXX),default)
CXX := g++
endif
ifeq ($(origin CC),default)
CC := gcc
endif
CXXFLAGS ?= -O2 -g
CFLAGS   ?= -O2 -g

SAN ?=
ifeq ($(SAN),address)
# enum: a C caller may put any int into one; that it is refused is tested. vptr: the check opens a pipe, which fails in
# the tests that run out of descriptors.
SANFLAGS := -fsanitize=address,undefined -fno-sanitize=enum,vptr -fno-sanitize-recover=undefined -fno-omit-frame-pointer
else ifeq ($(SAN),thread)
# gcc warns that it does not understand the fences of the doorbell, whose other side is another process.
SANFLAGS := -fsanitize=thread $(if $(findstring clang,$(CXX)),,-Wno-tsan)
else ifeq ($(SAN),fuzzer)
SANFLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=enum,vptr -fno-sanitize-recover=undefined
endif
CONF := $(notdir $(firstword $(CXX)))$(if $(SAN),-$(SAN))
B    := build/$(CONF)

WARN := -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers \
        $(if $(WERROR),-Werror)
DEFS := -D_GNU_SOURCE -Iinclude -I.
# PMIx is opened at run time; its header decides whether the code for it is built.
WITH_PMIX ?= auto
PMIX_FLAGS := $(shell pkg-config --cflags pmix 2>/dev/null)
HAVE_PMIX  := $(if $(filter no,$(WITH_PMIX)),,$(shell pkg-config --exists pmix 2>/dev/null && echo yes))
ifeq ($(WITH_PMIX)$(HAVE_PMIX),yes)
$(error WITH_PMIX=yes, but pkg-config knows no pmix: install libpmix-dev)
endif
# RDMA: a module of its own, opened at run time; without libibverbs' header it is not built.
WITH_VERBS ?= auto
HAVE_VERBS := $(if $(filter no,$(WITH_VERBS)),,$(shell pkg-config --exists libibverbs 2>/dev/null && echo yes))
ifeq ($(WITH_VERBS)$(HAVE_VERBS),yes)
$(error WITH_VERBS=yes, but pkg-config knows no libibverbs: install libibverbs-dev)
endif
ifeq ($(HAVE_PMIX),yes)
DEFS += -DEF_HAVE_PMIX=1 $(PMIX_FLAGS)
endif

ALL_CXXFLAGS = -std=c++20 -fPIC -pthread $(WARN) $(DEFS) $(SANFLAGS) -fvisibility=hidden -fvisibility-inlines-hidden \
               -ffp-contract=off $(CXXFLAGS)
ALL_CFLAGS   = -std=c11 -Wall -Wextra $(if $(WERROR),-Werror) -Iinclude $(SANFLAGS) $(CFLAGS)
ALL_LDFLAGS  = -pthread $(SANFLAGS) $(LDFLAGS)
LIBS         = -lsodium -lhwy -lfmt -ldl
NL_FLAGS     := $(shell pkg-config --cflags libnl-3.0 2>/dev/null || echo -I/usr/include/libnl3)
LAB_LIBS     = -lnl-3

Q = $(if $(V),,@printf '  %-5s %s\n' $(1) $(or $(2),$@);)

# ---------------------------------------------------------------- what is built
MODULE_SRC := $(sort $(wildcard transport/verbs/module/*.cpp))
LIB_SRC   := $(filter-out $(MODULE_SRC),$(sort $(shell find $(wildcard transport affinity allreduce) -name '*.cpp')))
LIB_OBJ   := $(LIB_SRC:%.cpp=$B/%.o)
COMMON_SRC := $(sort $(wildcard perftests/common/*.cpp perftests/p2p/*.cpp))
COMMON_OBJ := $(COMMON_SRC:%.cpp=$B/%.o)
PROGRAMS  := $(patsubst perftests/%.cpp,%,$(wildcard perftests/ef_*.cpp)) $(patsubst tools/%.cpp,%,$(wildcard tools/ef_*.cpp))
BIN       := $(PROGRAMS:%=$B/bin/%)
TEST_SRC  := $(sort $(shell find tests -name '*_test.cpp'))
TEST_BIN  := $(TEST_SRC:tests/%.cpp=$B/tests/%)
SUPPORT_OBJ := $(patsubst %.cpp,$B/%.o,$(sort $(wildcard tests/support/*.cpp)))
BENCH_SRC := $(sort $(wildcard perftests/bench/*.cpp))
BENCH_BIN := $(BENCH_SRC:perftests/bench/%.cpp=$B/bench/%)
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/*_fuzz.cpp))
FUZZ_BIN  := $(FUZZ_SRC:tests/fuzz/%.cpp=$B/fuzz/%)
MAN       := $(wildcard man/*.1 man/*.3 man/*.5 man/*.7)
HEADERS   := $(wildcard include/eflops/*.h)

LIB  := $B/libeflops.so.$(VERSION)
VERBS_LIB := $(if $(HAVE_VERBS),$B/libeflops-verbs.so)
AR_LIB := $B/libeflops.a

.PHONY: all lib programs tests benches fuzzers help
all: lib programs
lib: $(LIB) $B/libeflops.so $B/libeflops.so.$(SOVER) $(AR_LIB) $(VERBS_LIB)
programs: $(BIN)
tests: $(TEST_BIN)
benches: $(BENCH_BIN)
fuzzers: $(FUZZ_BIN)

help:
	@echo 'all demo check bench compare install uninstall clean    (see README.md, CONTRIBUTING.md)'

$(LIB): $(LIB_OBJ) include/libeflops.map
	$(call Q,LD)$(CXX) -shared -Wl,-soname,libeflops.so.$(SOVER) $(if $(SAN),,-Wl,-z,defs) \
	  -Wl,--version-script=include/libeflops.map $(ALL_LDFLAGS) -o $@ $(LIB_OBJ) $(LIBS)
$B/libeflops.so $B/libeflops.so.$(SOVER): $(LIB)
	@ln -sf $(notdir $(LIB)) $@
$B/libeflops-verbs.so: $(MODULE_SRC:%.cpp=$B/%.o)
	$(call Q,LD)$(CXX) -shared $(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) -o $@ $^ -libverbs
# For tests only: they look inside, and the shared library hides what is not promised.
$(AR_LIB): $(LIB_OBJ)
	$(call Q,AR)rm -f $@ && $(AR) rcs $@ $^

# clang's UndefinedBehaviorSanitizer takes minutes and a gigabyte for each file of vector kernels, and coverage of their
# lanes leads no fuzzer anywhere; AddressSanitizer stays. The kernels are held to a scalar reference bit by bit.
$B/allreduce/reduce/reduce_%.o: SANFLAGS := $(if $(filter thread,$(SAN)),$(SANFLAGS),$(if $(SAN),-fsanitize=address))

$B/%.o: %.cpp
	@mkdir -p $(@D)
	$(call Q,CXX)$(CXX) $(ALL_CXXFLAGS) -MMD -MP -c -o $@ $<

$B/tools/ef_lab.o $B/tools/lab/%.o: DEFS += $(NL_FLAGS)
RPATH = -Wl,-rpath,'$$ORIGIN/..'
$B/bin/%: $B/perftests/%.o $(COMMON_OBJ) $B/libeflops.so $B/libeflops.so.$(SOVER)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) $(RPATH) -o $@ $< $(COMMON_OBJ) -L$B -leflops -lfmt
# Tools that show what is inside (plan, fabric) take it from the archive: the shared library hides what is not promised.
$B/bin/ef_plan: $(patsubst %.cpp,$B/%.o,$(wildcard tools/plan/*.cpp))
$B/bin/ef_lab: $(patsubst %.cpp,$B/%.o,$(wildcard tools/lab/*.cpp))
$B/bin/ef_lab: LIBS += $(LAB_LIBS)
$B/bin/ef_plan $B/bin/ef_lab: $B/bin/%: $B/tools/%.o $(COMMON_OBJ) $(AR_LIB)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(AR_LIB) $(LIBS)
$B/bin/%: $B/tools/%.o $(COMMON_OBJ) $B/libeflops.so $B/libeflops.so.$(SOVER)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) $(RPATH) -o $@ $< $(COMMON_OBJ) -L$B -leflops -lfmt

# Tests of a tool take its parts, all but its main().
$(patsubst %.cpp,$B/%,$(wildcard tests/tools/plan_test.cpp tests/tools/plan/*_test.cpp)): \
  $(patsubst %.cpp,$B/%.o,$(wildcard tools/plan/*.cpp))
LAB_TEST_BIN := $(filter $B/tests/lab/% $B/tests/transport/path/%,$(TEST_BIN))
$(LAB_TEST_BIN): $(patsubst %.cpp,$B/%.o,$(wildcard tools/lab/*.cpp))
$(LAB_TEST_BIN): LIBS += $(LAB_LIBS)
$B/tests/%: $B/tests/%.o $(SUPPORT_OBJ) $(COMMON_OBJ) $(AR_LIB)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(AR_LIB) $(LIBS) -lgtest -lgtest_main
$B/bench/%: $B/perftests/bench/%.o $(AR_LIB)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) -o $@ $< $(AR_LIB) $(LIBS) -lbenchmark
$B/fuzz/%: $B/tests/fuzz/%.o $(AR_LIB)
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) -pthread -fsanitize=fuzzer,address,undefined $(LDFLAGS) -o $@ $< $(AR_LIB) $(LIBS)

.SECONDARY:
-include $(shell find build -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------- what is done with it
include tools/targets.mk

.PHONY: clean
clean:
	rm -rf build
