/* The vector functions over every exponent, both signs and a spread of mantissas, against double. */
#include "kernels/cpu/vmath.h"

#include "tests/harness/test.h"

/* Distance in units of the last place of the float nearest to `exact`; of the smallest subnormal at least. */
static double ulps(float found, double exact)
{
    float nearest = (float)exact, next;

    if (isnan(exact) || isnan(found))
        return isnan(exact) && isnan(found) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(found))
        return nearest == found ? 0 : INFINITY;
    next = nextafterf(fabsf(nearest), INFINITY);
    return isinf(next) ? 0 : fabs(found - exact) / ((double)next - fabsf(nearest));
}

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void sweep(const char *name, float (*f)(float), double (*exact)(double), double limit)
{
    double worst = 0;
    float at = 0;

    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 10007) {
        float x = bits_to_float((uint32_t)u);
        double e = ulps(f(x), exact(x));

        if (e > worst) {
            worst = e;
            at = x;
        }
    }
    if (worst > limit)
        TEST_FAIL("%s(%.9g) is %.9g, expected %.9g: %g ulp, at most %g", name, at, f(at), exact(at), worst, limit);
    for (int i = 0; i < 5; i++) {
        float x = (float[]){ 0.0f, -0.0f, INFINITY, -INFINITY, NAN }[i];

        if (ulps(f(x), exact(x)) > 1)
            TEST_FAIL("%s(%g) is %g, expected %g", name, x, f(x), exact(x));
    }
}

static void test_exp(void) { sweep("exp", vexpf, exp, 1.5); }
static void test_log(void) { sweep("log", vlogf, log, 1.5); }
static void test_tanh(void) { sweep("tanh", vtanhf, tanh, 2); }
static void test_sigmoid(void) { sweep("sigmoid", vsigmoidf, sigmoid, 3); }
static void test_expm1(void) { sweep("expm1", vexpm1f, expm1, 2); }
static void test_log1p(void) { sweep("log1p", vlog1pf, log1p, 3); }
static void test_softplus(void) { sweep("softplus", vsoftplusf, softplus, 4); }
static void test_erf(void) { sweep("erf", verff, erf, 2); }

/* A rounded x^2 / 2 in the exponent costs as many units. */
static void test_normal(void)
{
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 10007) {
        float x = bits_to_float((uint32_t)u), found = vnormalf(x, vexpf(-0.5f * x * x));
        double exact = erfc(-x * sqrt(0.5)) / 2;

        if (isnan(x) ? !isnan(found)
                     : !(fabs(found - exact) <= 0x1p-24 * (8 + 3 * (x < 0) * (double)x * x) * exact + 0x1p-149)) {
            TEST_FAIL("normal(%.9g) is %.9g, expected %.9g", x, found, exact);
            return;
        }
    }
}

DEFINE_SUITE(vmath, { "exp", test_exp }, { "log", test_log }, { "tanh", test_tanh }, { "sigmoid", test_sigmoid },
             { "expm1", test_expm1 }, { "log1p", test_log1p }, { "softplus", test_softplus }, { "erf", test_erf },
             { "normal", test_normal });
