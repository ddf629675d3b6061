import { texts } from '../format/messages.ts'
import { changeOf, formatChange, formatExact, formatValue, type NumberKind } from '../format/numbers.ts'
import { Icon } from './icon.tsx'

export interface NumProps {
  value: number
  /** `exact` writes all digits. */
  kind?: NumberKind | 'exact'
  /** The answer says that the value is an estimate. */
  isEstimated?: boolean
  /** Names what is counted, for tests and scripts: a group's key. */
  name?: string
}

/** A number of an answer: shown short, exact as tooltip and for screen readers, in full in `data-number`. */
export function Num({ value, kind = 'count', isEstimated = false, name }: NumProps) {
  const exact = formatExact(value, kind === 'exact' ? 'count' : kind)
  const short = `${isEstimated ? '≈' : ''}${kind === 'exact' ? exact : formatValue(value, kind)}`
  return (
    <data class="num" value={String(value)} data-number={String(value)} data-name={name} title={exact}>
      {short}
    </data>
  )
}

/** In place of a number that is not known: the reason for the pointer, and for screen readers. */
export const Unknown = ({ why }: { why: string }) => (
  <span class="muted" title={why}>
    <span aria-hidden="true">–</span>
    <span class="hidden-text">
      <bdi>{why}</bdi>
    </span>
  </span>
)

/** How a number changed: an arrow of ink, the amount, and what it was before in the tooltip. */
export function Change({ before, after, kind = 'count' }: { before: number; after: number; kind?: NumberKind }) {
  const change = changeOf(before, after, kind)
  const isMove = change.kind === 'points' || change.kind === 'percent'
  return (
    <span class="change" title={formatExact(before, kind)}>
      {isMove ? <Icon name={change.isRise ? 'arrow-up-right' : 'arrow-down-right'} size={14} /> : null}
      {isMove ? <span class="hidden-text">{change.isRise ? texts.up : texts.down} </span> : null}
      {formatChange(change)}
    </span>
  )
}
