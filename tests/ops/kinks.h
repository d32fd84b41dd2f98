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
    { "Relu of NaN",
      "graph \"kink\" {\n"
      "  input %a : float64[2]\n"
      "  const %w : float64[2] = {1.0,2.0}\n"
      "  %y = Relu(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 2 },
      { { NAN, 2.0 } },
      { { 1.0, 2.0 } } },
    { "ThresholdedRelu of NaN",
      "graph \"kink\" {\n"
      "  input %a : float64[2]\n"
      "  const %w : float64[2] = {1.0,2.0}\n"
      "  %y = ThresholdedRelu(%a) {alpha=1.0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 2 },
      { { NAN, 2.0 } },
      { { 0.0, 2.0 } } },
    { "Shrink of NaN",
      "graph \"kink\" {\n"
      "  input %a : float64[2]\n"
      "  const %w : float64[2] = {1.0,2.0}\n"
      "  %y = Shrink(%a) {lambd=0.5}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 2 },
      { { NAN, 2.0 } },
      { { 1.0, 2.0 } } },
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
    { "LpPool of zeros",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,3]\n"
      "  const %w : float64[1,1,1,2] = {1.0,2.0}\n"
      "  %y = LpPool(%a) {kernel_shape=[2,2]}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 6 },
      { { 0.0, 0.0, 3.0, 0.0, 0.0, 4.0 } },
      { { 0.0, 0.0, 1.2000000000000002, 0.0, 0.0, 1.6 } } },
    { "LpPool of zeros, p 1",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,3]\n"
      "  const %w : float64[1,1,1,2] = {1.0,2.0}\n"
      "  %y = LpPool(%a) {kernel_shape=[2,2], p=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 6 },
      { { 0.0, 0.0, 3.0, 0.0, 0.0, 4.0 } },
      { { 0.0, 0.0, 2.0, 0.0, 0.0, 2.0 } } },
    { "GlobalLpPool of zeros",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,2]\n"
      "  const %w : float64[1,1,1,1] = {1.0}\n"
      "  %y = GlobalLpPool(%a)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { 0.0, 0.0, 0.0, 0.0 } },
      { { 0.0, 0.0, 0.0, 0.0 } } },
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
    { "MaxPool and back",
      "graph \"kink\" {\n"
      "  input %a : float64[1,2,4]\n"
      "  const %w : float64[1,2,4] = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0}\n"
      "  %m, %i = MaxPool(%a) {kernel_shape=[2], strides=[2]}\n"
      "  %y = MaxUnpool(%m, %i) {kernel_shape=[2], strides=[2]}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 8 },
      { { 1.0, 3.0, 3.0, 2.0, 4.0, 2.0, 5.0, 7.0 } },
      { { 0.0, 2.0, 3.0, 0.0, 5.0, 0.0, 0.0, 8.0 } } },
    { "MaxPool and back, to where strides do not reach",
      "graph \"kink\" {\n"
      "  input %a : float64[1,2,5]\n"
      "  const %w : float64[1,2,5] = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0}\n"
      "  const %s : int64[3] = {1,2,5}\n"
      "  %m, %i = MaxPool(%a) {kernel_shape=[2], strides=[2]}\n"
      "  %y = MaxUnpool(%m, %i, %s) {kernel_shape=[2], strides=[2]}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 10 },
      { { 1.0, 3.0, 3.0, 2.0, 9.0, 4.0, 2.0, 5.0, 7.0, 9.0 } },
      { { 0.0, 2.0, 3.0, 0.0, 0.0, 6.0, 0.0, 0.0, 9.0, 0.0 } } },
    { "MaxPool of windows that overlap, and back",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,4]\n"
      "  const %w : float64[1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %m, %i = MaxPool(%a) {kernel_shape=[2]}\n"
      "  %y = MaxUnpool(%m, %i) {kernel_shape=[2]}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      1, { 4 },
      { { 1.0, 3.0, 2.0, 0.0 } },
      { { 0.0, 4.0, 3.0, 0.0 } } },
    { "GridSample, linear, zeros, 0, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"zeros\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.09999999999999998, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.5 },
        { 5.2, 1.0, -10.0, -5.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "GridSample, linear, zeros, 0, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"zeros\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.0, 0.6, 1.7999999999999998, 2.0, 1.125, 2.125, 0.0, 0.0 },
        { 6.0, 1.0, -2.0, 9.0, -18.0, -3.0, 28.799999999999997, 10.0 } } },
    { "GridSample, linear, zeros, 1, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"zeros\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.35, 0.0, 0.0, 0.0, 0.65, 0.07499999999999998, 0.5249999999999999, 2.0 },
        { -5.475, 1.0, -15.0, -5.0, 2.6999999999999993, -2.4375, 0.0, 0.0 } } },
    { "GridSample, linear, zeros, 1, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"zeros\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.09375, 1.6875, 3.20625, 0.9375, 0.65625, 2.6875, 0.41874999999999996, 0.3125 },
        { 5.625, 0.3125, -5.625, 2.0625, -17.4375, 1.875, 35.099999999999994, -2.125 } } },
    { "GridSample, linear, border, 0, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"border\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 2.5999999999999996, 0.0, 0.0, 0.0, 2.4000000000000004, 0.0, 3.0, 2.0 },
        { -0.0, 2.0, -0.0, -0.0, 18.0, -0.0, -0.0, 8.0 } } },
    { "GridSample, linear, border, 0, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"border\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.0, 1.0, 3.0, 2.0, 1.5, 2.5, 0.0, 0.0 },
        { 6.0, 0.0, -0.0, 0.0, -24.0, -0.0, 48.0, -0.0 } } },
    { "GridSample, linear, border, 1, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"border\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 2.5500000000000003, 0.0, 0.0, 0.0, 2.45, 0.375, 2.625, 2.0 },
        { -0.0, 1.0, -0.0, -0.0, 13.5, -0.0, -0.0, 4.0 } } },
    { "GridSample, linear, border, 1, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"border\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.09375, 1.6875, 3.20625, 0.9375, 0.65625, 2.6875, 0.41874999999999996, 0.3125 },
        { 5.625, 0.3125, -5.625, 2.0625, -17.4375, 1.875, 35.099999999999994, -2.125 } } },
    { "GridSample, linear, reflection, 0, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"reflection\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.44000000000000017, 2.1599999999999997, 3.0, 0.0, 0.9600000000000002, 1.44, 0.0, 2.0 },
        { -0.0, 2.0, -0.0, -0.0, -21.0, -0.0, 27.2, 4.4 } } },
    { "GridSample, linear, reflection, 0, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"reflection\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.0, 1.0, 3.0, 2.0, 1.5, 2.5, 0.0, 0.0 },
        { 6.0, 0.0, -0.0, 0.0, -24.0, -0.0, 48.0, -0.0 } } },
    { "GridSample, linear, reflection, 1, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"reflection\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.35, 2.3900000000000006, 2.2099999999999995, 0.0, 0.65, 1.7850000000000004, 0.6149999999999995, 2.0 },
        { -0.0, 1.0, -0.0, -0.0, 24.300000000000004, 2.4375, -27.900000000000002, 1.700000000000001 } } },
    { "GridSample, linear, reflection, 1, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"linear\", padding_mode=\"reflection\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.09375, 1.6875, 3.20625, 0.9375, 0.65625, 2.6875, 0.41874999999999996, 0.3125 },
        { 5.625, 0.3125, -5.625, 2.0625, -17.4375, 1.875, 35.099999999999994, -2.125 } } },
    { "GridSample, cubic, reflection, 0, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"cubic\", padding_mode=\"reflection\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.4097360000000034, 2.36298, 3.1240965000000003, -0.4453125, 1.1057640000000015, 1.3645200000000002,
          -0.7420964999999972, 2.8203125 },
        { -6.800116025829084e-16, 2.1656249999999972, 0.0, 0.0, 10.186875000000029, 3.600000000000003,
          5.706960000000023, 5.613270000000021 } } },
    { "GridSample, cubic, reflection, 0, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"cubic\", padding_mode=\"reflection\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { -0.376875, 0.98482421875, 4.18798828125, 1.5021875, 1.73625, 2.84330078125, -0.9536132812500006,
          0.07593750000000007 },
        { -1.5, 0.75, -10.5, 6.75, -30.849609375, 2.00390625, 53.98874999999999, -1.224609374999991 } } },
    { "GridSample, cubic, reflection, 1, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"cubic\", padding_mode=\"reflection\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 0.17638071874999986, 2.59486484375, 2.694537031250001, -0.19703259375000332, 0.6574825625000001,
          1.7274984375000018, 0.3716934374999995, 1.9745755624999979 },
        { -8.326672684688674e-17, 1.3649999999999989, 0.0, 0.0, 20.312015625000008, 3.115195312500001,
          -11.138547656249969, 2.4848226562499773 } } },
    { "GridSample, cubic, reflection, 1, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"cubic\", padding_mode=\"reflection\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { -0.1774337768554689, 1.50957733154297, 3.7882164916992216, 0.8232962036132809, 0.6893966674804687,
          3.2279714965820316, -0.08338250732421815, 0.22235809326171868 },
        { 1.937713623046875, 0.3083038330078125, -12.73040771484375, 3.008331298828125, -20.5565185546875,
          1.553466796875, 42.28724047851566, -1.0792044067382773 } } },
    { "GridSample, nearest, border, 0, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"nearest\", padding_mode=\"border\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0, 2.0 },
        { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "GridSample, nearest, border, 0, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"nearest\", padding_mode=\"border\", align_corners=0}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.0, 0.0, 4.0, 2.0, 3.0, 1.0, 0.0, 0.0 },
        { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "GridSample, nearest, border, 1, at ends",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"nearest\", padding_mode=\"border\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -1.0, 0.3, 1.0, 1.0, 0.25, 2.6, -1.7, -0.1 } },
      { { 4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0, 2.0 },
        { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "GridSample, nearest, border, 1, at elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,4]\n"
      "  input %b : float64[1,1,4,2]\n"
      "  const %w : float64[1,1,1,4] = {1.0,2.0,3.0,4.0}\n"
      "  %y = GridSample(%a, %b) {mode=\"nearest\", padding_mode=\"border\", align_corners=1}\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      2, { 8, 8 },
      { { 1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, 5.0 },
        { -0.25, 0.5, 0.75, -0.5, -0.5, 0.75, 0.125, -0.9 } },
      { { 0.0, 0.0, 4.0, 2.0, 0.0, 4.0, 0.0, 0.0 },
        { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } } },
    { "DeformConv, offsets of zero",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,2]\n"
      "  input %b : float64[1,1,1,2]\n"
      "  input %c : float64[1,4,2,1]\n"
      "  const %w : float64[1,1,2,1] = {1.0,2.0}\n"
      "  %y = DeformConv(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 4, 2, 8 },
      { { 1.0, -2.0, 3.0, 5.0 },
        { 2.0, -1.0 },
        { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 } },
      { { 2.0, -1.0, 4.0, -2.0 },
        { 7.0, 8.0 },
        { 4.0, -12.0, -6.0, 8.0, -7.0, 10.0, -2.0, 10.0 } } },
    { "DeformConv, offsets of elements",
      "graph \"kink\" {\n"
      "  input %a : float64[1,1,2,2]\n"
      "  input %b : float64[1,1,1,2]\n"
      "  input %c : float64[1,4,2,1]\n"
      "  const %w : float64[1,1,2,1] = {1.0,2.0}\n"
      "  %y = DeformConv(%a, %b, %c)\n"
      "  %p = Mul(%y, %w)\n"
      "  %loss = ReduceSum(%p) {keepdims=0}\n"
      "  output \"loss\" = %loss\n"
      "}\n",
      3, { 4, 2, 8 },
      { { 1.0, -2.0, 3.0, 5.0 },
        { 2.0, -1.0 },
        { 1.0, 0.0, -1.0, 1.0, -1.0, 2.0, 0.5, -2.0 } },
      { { 0.0, 0.0, 0.0, 4.0 },
        { 10.0, 0.0 },
        { 0.0, -20.0, 6.0, -20.0, 1.0, 0.0, 0.0, 0.0 } } },
};
