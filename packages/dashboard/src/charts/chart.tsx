import { lazyPage } from '../ui/lazy-page.tsx'
import type { ChartProps } from './chart-props.ts'

const load = () => import('./plot.tsx')
const Plot = lazyPage(load)

/** Fetches the chart's code before it is needed. A failure shows when it is. */
export function preloadChart(): void {
  load().catch(() => undefined)
}

/** A chart by uPlot, whose code is in a chunk of its own; its place has its height before. */
export const Chart = (props: ChartProps) => (
  <div class="chart-place">
    <Plot {...props} />
  </div>
)
