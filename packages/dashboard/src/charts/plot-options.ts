import uPlot from 'uplot'
import { formatTick, hourOf } from '../format/dates.ts'
import { formatAxis } from '../format/numbers.ts'
import type { ChartProps } from './chart-props.ts'
import { hourIndexes, niceTop, tickIndexes } from './scale.ts'

type Values = (number | null)[]
/**
 * Seconds, then the compared buckets (below the others), the whole ones, and the partial ones with their neighbours.
 */
export type PlotData = [number[], Values, Values, Values]

/** The chart's numbers as uPlot takes them. Partial buckets have a series of their own, which is dashed. */
export function plotData({
  timestamps,
  values,
  compared,
  isFirstPartial = false,
  isLastPartial = false,
}: ChartProps): PlotData {
  const last = values.length - 1
  const isPartial = (at: number) => (at === 0 && isFirstPartial) || (at === last && isLastPartial)
  const isBesidePartial = (at: number) => isPartial(at) || isPartial(at - 1) || isPartial(at + 1)
  return [
    timestamps.map((ms) => ms / 1000),
    timestamps.map((_, at) => compared?.values[at] ?? null),
    values.map((value, at) => (isPartial(at) ? null : value)),
    values.map((value, at) => (isBesidePartial(at) ? value : null)),
  ]
}

export interface PlotEvents {
  onCursor: (cursor: { at: number; left: number; top: number } | undefined) => void
  onPick: (at: number) => void
  onSelect: (from: number, to: number) => void
}

/** A drag shorter than this is a click, px. */
const clickPx = 4
/** Room that a label of the x axis takes, px. */
const tickPx = 80
const axisPx = 56

/** How uPlot draws: zero base, three lines, dashed partial buckets, a vertical cursor. `props` gives what holds now. */
export function plotOptions(
  props: () => ChartProps,
  size: { width: number; height: number },
  events: PlotEvents,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const token = (name: string) => style.getPropertyValue(name).trim()
  const [accent, line, muted, compare, sheet] = ['--accent', '--line', '--muted', '--compare', '--sheet'].map(token)
  const font = `12px ${style.fontFamily}`
  const topOf = () => {
    const { values, compared } = props()
    return niceTop(Math.max(0, ...values, ...(compared?.values ?? [])))
  }
  const columns =
    props().isColumns === true && uPlot.paths.bars !== undefined ? { paths: uPlot.paths.bars({ size: [0.7, 24] }) } : {}
  // 8 % of the accent: tokens are hexadecimal.
  const fill = `${accent ?? ''}14`
  let isTouched = false
  return {
    ...size,
    legend: { show: false },
    padding: [12, 32, 0, 0],
    scales: { x: { time: false }, y: { range: () => [0, topOf()] } },
    cursor: {
      y: false,
      // The line stands on the bucket that the tooltip tells of.
      move: (plot, left, top) => [left < 0 ? left : plot.valToPos(plot.data[0][plot.posToIdx(left)] ?? 0, 'x'), top],
      // A finger leaves the plot as soon as it is lifted; what its tap shows stays.
      bind: { mouseleave: (_, __, hide) => (event) => (isTouched ? null : hide(event)) },
      // uPlot swallows clicks that it takes for the end of a drag: all of them where the line is not at the pointer.
      drag: { x: true, y: false, setScale: false, dist: clickPx, click: () => null },
      points: {
        size: 8,
        width: 2,
        fill: () => sheet ?? '',
        stroke: (_, series) => (series === 1 ? (compare ?? '') : (accent ?? '')),
      },
    },
    axes: [
      {
        stroke: muted ?? '',
        font,
        size: 32,
        gap: 8,
        grid: { show: false },
        ticks: { show: false },
        splits: (plot) => {
          const { timestamps, unit, zone } = props()
          const { length } = timestamps
          const most = Math.max(2, Math.floor(plot.bbox.width / devicePixelRatio / tickPx))
          const indexes =
            unit === 'hour'
              ? hourIndexes(length, most, (at) => hourOf(timestamps[at] ?? 0, zone))
              : tickIndexes(length, most)
          return indexes.map((at) => (timestamps[at] ?? 0) / 1000)
        },
        values: (_, splits) => splits.map((seconds) => formatTick(seconds * 1000, props().unit, props().zone)),
      },
      {
        stroke: muted ?? '',
        font,
        size: axisPx,
        gap: 8,
        grid: { stroke: line ?? '', width: 1 },
        ticks: { show: false },
        splits: () => [0, topOf() / 2, topOf()],
        values: (_, splits) => formatAxis(splits, props().kind),
      },
    ],
    series: [
      {},
      { stroke: compare ?? '', width: 1.5, points: { show: false } },
      { stroke: accent ?? '', width: 1.75, fill, points: { show: false }, ...columns },
      {
        stroke: accent ?? '',
        width: 1.75,
        dash: [4, 4],
        fill,
        ...columns,
        points: { show: true, size: 7, width: 1.75, fill: sheet ?? '', filter: () => partialIndexes(props()) },
      },
    ],
    hooks: {
      setCursor: [
        (plot) => {
          const { idx, left = -1, top = -1 } = plot.cursor
          events.onCursor(
            idx == null || left < 0
              ? undefined
              : { at: idx, left: plot.valToPos(plot.data[0][idx] ?? 0, 'x') + axisPx, top },
          )
        },
      ],
      setSelect: [
        (plot) => {
          if (plot.select.width <= clickPx) return
          const from = plot.posToIdx(plot.select.left)
          const to = plot.posToIdx(plot.select.left + plot.select.width)
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          if (to > from) events.onSelect(from, to)
        },
      ],
      ready: [
        (plot) => {
          let pressedAt = 0
          let shown: number | null | undefined
          plot.over.addEventListener('pointerenter', (event) => {
            isTouched = event.pointerType === 'touch'
          })
          plot.over.addEventListener('pointerdown', (event) => {
            pressedAt = event.clientX
            shown = plot.cursor.idx
          })
          plot.over.addEventListener('click', (event) => {
            const { idx } = plot.cursor
            // The first tap of a finger shows the value, and the second one picks it.
            if (idx == null || (isTouched && idx !== shown)) return
            if (Math.abs(event.clientX - pressedAt) <= clickPx) events.onPick(idx)
          })
        },
      ],
    },
  }
}

const partialIndexes = ({ values, isFirstPartial, isLastPartial }: ChartProps): number[] => [
  ...(isFirstPartial === true ? [0] : []),
  ...(isLastPartial === true ? [values.length - 1] : []),
]
