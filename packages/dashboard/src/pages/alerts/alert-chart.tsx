import { useRef, useState } from 'preact/hooks'
import { formatDate, formatDateTime } from '../../format/dates.ts'
import { formatCompact, formatExact, formatValue, type NumberKind } from '../../format/numbers.ts'
import { announce } from '../../ui/announce.tsx'
import { type Band, isFiringAt, shownBands } from './firings.ts'
import { type Point, roundedTo3, type Scale, scaleOf } from './geometry.ts'
import { texts } from './messages.ts'

export interface AlertChartProps {
  /** Names what is measured. */
  label: string
  series: readonly Point[]
  bands: readonly Band[]
  kind: NumberKind
  zone: string
  /** Absent: the threshold is not a value of the metric, but a change in percent. */
  threshold?: number | undefined
  /** Dragging the line of the threshold sets it. */
  onThreshold?: (value: number) => void
}

const [width, height] = [1_000, 240]

/** Thirty days of a metric with the threshold, and bands where a rule fires. Arrow keys move along the points. */
export function AlertChart({ label, series, bands, kind, zone, threshold, onThreshold }: AlertChartProps) {
  const plot = useRef<HTMLDivElement>(null)
  const [at, setAt] = useState<number>()
  // The scale follows the threshold, so a line that is dragged to the top would move away from the pointer for ever.
  const [dragScale, setDragScale] = useState<Scale>()
  const scale = dragScale ?? scaleOf(series, threshold)
  const last = series.at(-1)
  const highest = series.reduce((most, point) => Math.max(most, point.value), 0)
  const line = series
    .map(({ timestamp, value }) => `${scale.x(timestamp) * width},${scale.y(value) * height}`)
    .join(' ')
  const point = at === undefined ? undefined : series[at]
  const textAt = (index: number) => {
    const there = series[index]
    if (there === undefined) return ''
    const { timestamp, value } = there
    return texts.point(formatDateTime(timestamp, zone), formatExact(value, kind), isFiringAt(index, series, bands))
  }
  const move = (to: number) => {
    const next = Math.min(series.length - 1, Math.max(0, to))
    setAt(next)
    if (series.length > 0) announce(textAt(next), 'point')
  }
  const shareOf = (event: PointerEvent) => {
    const box = plot.current?.getBoundingClientRect()
    return box === undefined
      ? { x: 0, y: 0 }
      : { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height }
  }
  return (
    <figure
      class="alert-chart"
      tabIndex={0}
      aria-label={`${label}. ${texts.chartHint}`}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
        if (by === undefined) return
        event.preventDefault()
        move((at ?? series.length) + by)
      }}
      onBlur={() => setAt(undefined)}
    >
      <div
        ref={plot}
        class="alert-plot"
        onPointerMove={(event) => {
          const { x } = shareOf(event)
          const nearest = series.findIndex((each) => scale.x(each.timestamp) >= x)
          setAt(nearest === -1 ? series.length - 1 : nearest)
        }}
        onPointerLeave={() => setAt(undefined)}
      >
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={texts.chart(label, formatExact(last?.value ?? 0, kind), formatExact(highest, kind))}
        >
          {[0, 0.5, 1].map((share) => (
            <line key={share} class="grid" x1={0} x2={width} y1={share * height} y2={share * height} />
          ))}
          {shownBands(bands, series).map((band) => {
            const from = scale.x(band.from) * width
            const to = scale.x(band.to ?? last?.timestamp ?? band.from) * width
            return (
              <g key={band.from}>
                <rect class="band" x={from} y={0} width={Math.max(2, to - from)} height={height} />
                <rect class="band-edge" x={from} y={0} width={Math.max(2, to - from)} height={5} />
              </g>
            )
          })}
          {series.length === 0 ? null : <polygon class="area" points={`0,${height} ${line} ${width},${height}`} />}
          <polyline class="values" points={line} />
          {point === undefined ? null : (
            <line
              class="cursor"
              x1={scale.x(point.timestamp) * width}
              x2={scale.x(point.timestamp) * width}
              y1={0}
              y2={height}
            />
          )}
        </svg>
        {threshold === undefined || threshold < 0 ? null : (
          <div
            class={onThreshold === undefined ? 'threshold' : 'threshold movable'}
            style={{ insetBlockStart: `${scale.y(threshold) * 100}%` }}
            onPointerDown={(event) => {
              if (onThreshold === undefined) return
              event.currentTarget.setPointerCapture(event.pointerId)
              setDragScale(scale)
            }}
            onLostPointerCapture={() => setDragScale(undefined)}
            onPointerMove={(event) => {
              if (!event.currentTarget.hasPointerCapture(event.pointerId)) return
              onThreshold?.(roundedTo3(scale.valueAt(shareOf(event).y)))
            }}
          >
            <span>{texts.thresholdLine(formatValue(threshold, kind))}</span>
          </div>
        )}
        <span class="alert-top">{kind === 'count' ? formatCompact(scale.top) : formatValue(scale.top, kind)}</span>
      </div>
      <figcaption>
        <span>{series[0] === undefined ? '' : formatDate(series[0].timestamp, zone)}</span>
        <span class="alert-point">{at === undefined ? '' : textAt(at)}</span>
        <span>{last === undefined ? '' : formatDate(last.timestamp, zone)}</span>
      </figcaption>
    </figure>
  )
}
