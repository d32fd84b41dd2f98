/* What PyTorch computes; made by tests/ops/kinks.py. */
/* clang-format off */
typedef struct { const char *name, *graph; int n, numel[3]; double in[3][12], grad[3][12]; } Kink;
static const Kink kinks[] = {
    { "Max of two",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  input %b : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Max(%a, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 4, 4 },
      { { 1.0, 2.0, 3.0, -1.0 },
        { 1.0, 1.0, 4.0, -1.0 } },
      { { 0.5, 2.0, 0.0, 2.0 },
        { 0.5, 0.0, 3.0, 2.0 } } },
    { "Max of three",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  input %b : float64[4]\n"
      "  input %c : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Max(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 4, 4, 4 },
      { { 1.0, 2.0, 3.0, 0.0 },
        { 1.0, 2.0, 4.0, 0.0 },
        { 1.0, 1.0, 4.0, 5.0 } },
      { { 0.3333333333333333, 1.0, 0.0, 0.0 },
        { 0.3333333333333333, 1.0, 1.5, 0.0 },
        { 0.3333333333333333, 0.0, 1.5, 4.0 } } },
    { "Max that broadcasts",
      "graph \"kink\" {\n"
      "  input %a : float64[2,2]\n"
      "  input %b : float64[2]\n"
      "  const %w : float64[2,2] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Max(%a, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 4, 2 },
      { { 1.0, 2.0, 3.0, 0.0 },
        { 1.0, 2.0 } },
      { { 0.5, 1.0, 3.0, 0.0 },
        { 0.5, 5.0 } } },
    { "Min of two",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  input %b : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Min(%a, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 4, 4 },
      { { 1.0, 2.0, 3.0, -1.0 },
        { 1.0, 1.0, 4.0, -1.0 } },
      { { 0.5, 0.0, 3.0, 2.0 },
        { 0.5, 2.0, 0.0, 2.0 } } },
    { "Min of three",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  input %b : float64[4]\n"
      "  input %c : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Min(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 4, 4, 4 },
      { { 1.0, 2.0, 3.0, 0.0 },
        { 1.0, 2.0, 4.0, 0.0 },
        { 1.0, 3.0, 3.0, -5.0 } },
      { { 0.3333333333333333, 1.0, 1.5, 0.0 },
        { 0.3333333333333333, 1.0, 0.0, 0.0 },
        { 0.3333333333333333, 0.0, 1.5, 4.0 } } },
    { "Relu",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Relu(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { 0.0, 0.0, 0.0, 4.0 } } },
    { "Abs",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Abs(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { -1.0, 0.0, 0.0, 4.0 } } },
    { "LeakyRelu",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = LeakyRelu(%a) {alpha=0.1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { 0.1, 0.2, 0.30000000000000004, 4.0 } } },
    { "PRelu",
      "graph \"kink\" {\n"
      "  input %a : float64[1,4]\n"
      "  input %b : float64[1]\n"
      "  const %w : float64[1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = PRelu(%a, %b)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 4, 1 },
      { { -1.0, -0.0, 0.0, 1.0 },
        { 0.25 } },
      { { 0.25, 0.5, 0.75, 4.0 },
        { -1.0 } } },
    { "Elu",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Elu(%a) {alpha=0.5}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { 0.18393972058572117, 1.0, 1.5, 4.0 } } },
    { "Celu",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Celu(%a) {alpha=2.0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { 0.6065306597126334, 2.0, 3.0, 4.0 } } },
    { "Selu",
      "graph \"kink\" {\n"
      "  input %a : float64[4]\n"
      "  const %w : float64[4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = Selu(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { -1.0, -0.0, 0.0, 1.0 } },
      { { 0.646768603034814, 3.5161986816947532, 5.27429802254213, 4.202803949421922 } } },
    { "ThresholdedRelu",
      "graph \"kink\" {\n"
      "  input %a : float64[3]\n"
      "  const %w : float64[3] = {1.0,2.0,3.0}\n"
      "  %y = ThresholdedRelu(%a) {alpha=1.0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 3 },
      { { 0.5, 1.0, 1.5 } },
      { { 0.0, 0.0, 3.0 } } },
    { "Shrink",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = Shrink(%a) {lambd=0.5}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 5 },
      { { -1.0, -0.5, 0.0, 0.5, 1.0 } },
      { { 1.0, 0.0, 0.0, 0.0, 5.0 } } },
    { "HardSwish",
      "graph \"kink\" {\n"
      "  input %a : float64[5]\n"
      "  const %w : float64[5] = {1.0,2.0,3.0,4.0,5.0}\n"
      "  %y = HardSwish(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 5 },
      { { -4.0, -3.0, 0.0, 3.0, 4.0 } },
      { { 0.0, 0.0, 1.5, 4.0, 5.0 } } },
    { "ReduceMax",
      "graph \"kink\" {\n"
      "  input %a : float64[2,3]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceMax(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 6 },
      { { 3.0, 3.0, 1.0, 2.0, 3.0, 0.0 } },
      { { 0.3333333333333333, 0.3333333333333333, 0.0, 0.0, 0.3333333333333333, 0.0 } } },
    { "ReduceMin",
      "graph \"kink\" {\n"
      "  input %a : float64[2,3]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceMin(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 6 },
      { { 0.0, 3.0, 1.0, 2.0, 0.0, 0.0 } },
      { { 0.3333333333333333, 0.0, 0.0, 0.0, 0.3333333333333333, 0.3333333333333333 } } },
    { "ReduceL1",
      "graph \"kink\" {\n"
      "  input %a : float64[3]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceL1(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 3 },
      { { -1.0, 0.0, 2.0 } },
      { { -1.0, 0.0, 1.0 } } },
    { "ReduceL2 of zeros",
      "graph \"kink\" {\n"
      "  input %a : float64[2]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceL2(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 2 },
      { { 0.0, 0.0 } },
      { { 0.0, 0.0 } } },
    { "ReduceProd of one zero",
      "graph \"kink\" {\n"
      "  input %a : float64[3]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceProd(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 3 },
      { { 2.0, 0.0, 3.0 } },
      { { 0.0, 6.0, 0.0 } } },
    { "ReduceProd of two zeros",
      "graph \"kink\" {\n"
      "  input %a : float64[3]\n"
      "  const %w : float64[] = {1.0}\n"
      "  %y = ReduceProd(%a) {keepdims=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 3 },
      { { 2.0, 0.0, 0.0 } },
      { { 0.0, 0.0, 0.0 } } },
    { "MaxPool",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,3,3]\n"
      "  const %w : float64[1,1,2,2] = {1.0,2.0,3.0,4.0}\n"
      "  %y = MaxPool(%a) {kernel_shape=[2,2]}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 9 },
      { { 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 0.0, 2.0, 1.0 } },
      { { 0.0, 0.0, 2.0, 0.0, 8.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "MaxPool, apart",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,3,3]\n"
      "  const %w : float64[1,1,2,2] = {1.0,2.0,3.0,4.0}\n"
      "  %y = MaxPool(%a) {kernel_shape=[2,2], strides=[2,2], ceil_mode=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 9 },
      { { 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 0.0, 2.0, 1.0 } },
      { { 0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 4.0 } } },
    { "GlobalMaxPool",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,3,3]\n"
      "  const %w : float64[1,1,1,1] = {1.0}\n"
      "  %y = GlobalMaxPool(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 9 },
      { { 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 0.0, 2.0, 1.0 } },
      { { 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } } },
};
