import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { formatBucket } from '../format/dates.ts'
import { changeOf, formatChange, formatExact } from '../format/numbers.ts'
import { announce } from '../ui/announce.tsx'
import type { ChartProps } from './chart-props.ts'
import { type PlotData, plotData, plotOptions } from './plot-options.ts'
import { niceTop } from './scale.ts'

const height = 260
const heightNarrow = 220
const narrow = 700

/** A bucket as one line: date, value, and what it is compared with. */
function describe({ timestamps, values, compared, kind, unit, zone, ...partial }: ChartProps, at: number) {
  const value = values[at] ?? 0
  const before = compared?.values[at]
  const beforeAt = compared?.timestamps[at]
  const note =
    at === values.length - 1 && partial.isLastPartial === true
      ? partial.lastNote
      : at === 0 && partial.isFirstPartial === true
        ? partial.firstNote
        : undefined
  return {
    date: formatBucket(timestamps[at] ?? 0, unit, zone),
    value: formatExact(value, kind),
    note: note ?? '',
    before:
      before === undefined || beforeAt === undefined
        ? undefined
        : { date: formatBucket(beforeAt, unit, zone), value: formatExact(before, kind) },
    change: before === undefined ? undefined : changeOf(before, value, kind),
  }
}

/** Where the cursor is hidden, px. */
const outside = { left: -10, top: -10 }

/** The chart itself: a figure with its caption, a canvas, and a cursor by mouse, touch or arrow keys. */
export default function Plot(props: ChartProps) {
  const { caption, summary, help, values, compared, kind, onPick, onSelect } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>()
  const latest = useRef(props)
  latest.current = props
  const [cursor, setCursor] = useState<{ at: number; left: number; top: number }>()
  const helpId = useId()
  const [theme, setTheme] = useState(0)
  const data: PlotData = useMemo(
    () => plotData(props),
    [props.timestamps, values, compared, props.isFirstPartial, props.isLastPartial],
  )
  const top = niceTop(Math.max(0, ...values, ...(compared?.values ?? [])))
  const shape = JSON.stringify([kind, props.unit, props.zone, theme, compared === undefined, props.isColumns])

  useEffect(() => {
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const onChange = () => setTheme((count) => count + 1)
    dark.addEventListener('change', onChange)
    return () => dark.removeEventListener('change', onChange)
  }, [])

  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const size = () => ({ width: element.clientWidth, height: element.clientWidth < narrow ? heightNarrow : height })
    const made = new uPlot(
      plotOptions(() => latest.current, size(), {
        onCursor: setCursor,
        onPick: (at) => latest.current.onPick?.(at),
        onSelect: (from, to) => latest.current.onSelect?.(from, to),
      }),
      data,
      element,
    )
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize(size()))
    observer.observe(element)
    // A tap outside the chart hides the value that a tap on the chart shows.
    const onPress = ({ target }: PointerEvent) => {
      if (target instanceof Node && !element.contains(target)) made.setCursor(outside)
    }
    document.addEventListener('pointerdown', onPress)
    return () => {
      document.removeEventListener('pointerdown', onPress)
      observer.disconnect()
      plot.current = undefined
      made.destroy()
    }
  }, [shape])

  useEffect(() => plot.current?.setData(data), [data, top])

  const moveTo = (at: number) => {
    const bounded = Math.min(Math.max(at, 0), values.length - 1)
    const made = plot.current
    if (made === undefined || values.length === 0) return
    const left = made.valToPos(data[0][bounded] ?? 0, 'x')
    made.setCursor({ left, top: made.valToPos(values[bounded] ?? 0, 'y') })
    const { date, value, note, before } = describe(latest.current, bounded)
    announce(
      [`${date}: ${value}`, note, before === undefined ? '' : `${before.date}: ${before.value}`]
        .filter(Boolean)
        .join(', '),
      'point',
    )
  }

  const onKeyDown = (event: KeyboardEvent) => {
    const at = cursor?.at ?? (event.key === 'ArrowLeft' ? values.length : -1)
    const steps: Partial<Record<string, number>> = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: values.length - 1,
    }
    const to = steps[event.key]
    if (to !== undefined) {
      event.preventDefault()
      event.stopPropagation()
      moveTo(to)
    } else if (event.key === 'Enter' && cursor !== undefined && onPick !== undefined) onPick(cursor.at)
    else if (event.key === 'Escape' && cursor !== undefined) {
      event.preventDefault()
      event.stopPropagation()
      plot.current?.setCursor(outside)
    }
  }

  const shown = cursor === undefined || cursor.at >= values.length ? undefined : describe(props, cursor.at)
  return (
    <figure
      class={`chart${onSelect === undefined ? '' : ' selectable'}`}
      tabIndex={0}
      aria-describedby={helpId}
      onKeyDown={onKeyDown}
    >
      <figcaption class="hidden-text">{caption}</figcaption>
      <p class="hidden-text" id={helpId}>
        {help}
      </p>
      <div ref={place} class="plot" role="img" aria-label={summary} />
      {shown === undefined || cursor === undefined ? null : (
        <div
          class={`chart-tip${place.current !== null && cursor.left > place.current.clientWidth / 2 ? ' before' : ''}`}
          aria-hidden="true"
          style={{ '--at': cursor.left / (place.current?.clientWidth ?? 1) }}
        >
          <p>
            <span class="key-line" />
            <span>{shown.date}</span>
            <strong>{shown.value}</strong>
          </p>
          {shown.before === undefined ? null : (
            <p class="muted">
              <span class="key-line compare" />
              <span>{shown.before.date}</span>
              <strong>{shown.before.value}</strong>
            </p>
          )}
          {shown.change === undefined || shown.change.kind === 'same' ? null : (
            <p class="muted">
              {'isRise' in shown.change ? (shown.change.isRise ? '↗ ' : '↘ ') : ''}
              {formatChange(shown.change)}
            </p>
          )}
          {shown.note === '' ? null : <p class="muted">{shown.note}</p>}
        </div>
      )}
    </figure>
  )
}
