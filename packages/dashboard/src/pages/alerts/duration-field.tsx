import { Field } from '../../ui/field.tsx'
import { Select } from '../../ui/select.tsx'
import { texts } from './messages.ts'

/** A duration while it is typed: its number as text, and its unit. */
export interface DurationDraft {
  count: string
  unit: string
}

/** `10m` as number and unit. */
export function draftOf(duration: string): DurationDraft {
  const [, count = '', unit = 'm'] = /^(\d+)([smhd])$/.exec(duration) ?? []
  return { count, unit }
}

/** `10m`; undefined for what is not a whole number. */
export const durationOf = ({ count, unit }: DurationDraft): string | undefined =>
  /^\d{1,9}$/.test(count.trim()) ? `${Number(count)}${unit}` : undefined

interface DurationFieldProps {
  label: string
  value: DurationDraft
  /** The units that can be chosen, of `smhd`. */
  units: string
  onChange: (value: DurationDraft) => void
  hint?: string
  error?: string | undefined
}

/** A whole number and a unit of time. */
export const DurationField = ({ label, value, units, onChange, hint, error }: DurationFieldProps) => (
  <Field label={label} hint={hint} error={error}>
    {(attributes) => (
      <div class="duration">
        <input
          {...attributes}
          class="input"
          inputMode="numeric"
          value={value.count}
          onInput={(event) => {
            onChange({ ...value, count: event.currentTarget.value })
          }}
        />
        <Select
          name={texts.unitOf(label)}
          value={value.unit}
          options={Array.from(units).map((unit) => ({ value: unit, label: texts.durationUnits[unit] ?? unit }))}
          onChange={(unit) => {
            onChange({ ...value, unit })
          }}
        />
      </div>
    )}
  </Field>
)
