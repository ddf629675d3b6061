import { SelectField } from '../ui/field.tsx'

interface OverlapFieldProps<Overlap extends string> {
  label: string
  /** The labels of the durations. */
  overlaps: Readonly<Partial<Record<Overlap, string>>>
  value: Overlap
  onChange: (overlap: Overlap) => void
}

/** A choice of how long the old key or secret stays valid in addition to the new one. */
export function OverlapField<Overlap extends string>({ label, overlaps, value, onChange }: OverlapFieldProps<Overlap>) {
  return (
    <SelectField
      label={label}
      value={value}
      options={(Object.keys(overlaps) as Overlap[]).map((each) => ({ value: each, label: overlaps[each] ?? each }))}
      onChange={onChange}
    />
  )
}
