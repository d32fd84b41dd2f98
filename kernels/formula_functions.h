/* The formulas of kernels/formulas.def as inline functions of the types FORMULA_TYPES(types, vectors) of each row, in
 * the functions that the includer has defined.  Included once, by a header of the reference or of the CPU kernels. */
#include "kernels/formulas.h"

/* No unsigned x is below 0, and an integer equals itself. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wtautological-compare"

#define FORMULA(R, TYPE, NAME, OPERANDS, ATTRS, ...)                                               \
    __attribute__((always_inline, unused)) static inline R formula_##NAME(OPERANDS PARAMS_##ATTRS) \
    {                                                                                              \
        __attribute__((unused)) typedef TYPE T;                                                    \
        return (R)(__VA_ARGS__);                                                                   \
    }
#define ONE(TYPE) TYPE x
#define TWO(TYPE) TYPE a, __attribute__((unused)) TYPE b
#define FUNCTION1(D, TYPE, S, NAME, ATTRS, ...) FORMULA(TYPE, TYPE, NAME##_##S, ONE(TYPE), ATTRS, __VA_ARGS__)
#define FUNCTION2(D, TYPE, S, NAME, ATTRS, ...) FORMULA(TYPE, TYPE, NAME##_##S, TWO(TYPE), ATTRS, __VA_ARGS__)
#define TESTING1(D, TYPE, S, NAME, ATTRS, ...) FORMULA(bool, TYPE, NAME##_##S, ONE(TYPE), ATTRS, __VA_ARGS__)
#define TESTING2(D, TYPE, S, NAME, ATTRS, ...) FORMULA(bool, TYPE, NAME##_##S, TWO(TYPE), ATTRS, __VA_ARGS__)

#define FORMULA_CAT(a, b) FORMULA_PASTE(a, b)
#define FORMULA_PASTE(a, b) a##b
#define FORMULA_EACH(types, vectors) FORMULA_CAT(EACH_, FORMULA_TYPES(types, vectors))

#define UNARY(Op, name, types, vectors, attributes, ...) \
    FORMULA_EACH(types, vectors)(FUNCTION1, name, attributes, __VA_ARGS__)
#define BINARY(Op, name, types, vectors, attributes, ...) \
    FORMULA_EACH(types, vectors)(FUNCTION2, name, attributes, __VA_ARGS__)
#define TEST1(Op, name, types, vectors, attributes, ...) \
    FORMULA_EACH(types, vectors)(TESTING1, name, attributes, __VA_ARGS__)
#define TEST2(Op, name, types, vectors, attributes, ...) \
    FORMULA_EACH(types, vectors)(TESTING2, name, attributes, __VA_ARGS__)
#define PART2(name, types, vectors, ...) FORMULA_EACH(types, vectors)(FUNCTION2, name, NONE(), __VA_ARGS__)
#include "kernels/formulas.def"
#undef UNARY
#undef BINARY
#undef TEST1
#undef TEST2
#undef PART2
#pragma GCC diagnostic pop
