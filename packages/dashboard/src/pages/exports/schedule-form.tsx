import { useState } from 'preact/hooks'
import { type ExportResource, frequencies } from '@sluice/contracts/exports'
import { fieldErrors } from '../../api/field-errors.ts'
import { useChange } from '../../api/hooks.ts'
import { localTime } from '../../format/dates.ts'
import { Field, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { Select } from '../../ui/select.tsx'
import { texts } from './messages.ts'

/** Changes a schedule's name, frequency and next run. */
export function ScheduleForm({ of, onClose }: { of: ExportResource; onClose: () => void }) {
  const update = useChange('updateExport', ['listExports', 'getExport'])
  const [name, setName] = useState(of.name)
  const [frequency, setFrequency] = useState(of.scheduled?.frequency ?? 'daily')
  const before = localTime(of.scheduled?.next_run ?? Date.now())
  const [next, setNext] = useState(before)
  const errors = fieldErrors(update.error, ['name', 'scheduled.frequency', 'scheduled.next_run'])
  return (
    <FormDialog
      title={texts.editTitle}
      submit={texts.save}
      isBusy={update.isBusy}
      error={errors.rest}
      onClose={onClose}
      onSubmit={async () => {
        const nextRun = new Date(next).getTime()
        await update.run({
          params: { export_id: of.export_id },
          body: {
            name: name.trim(),
            scheduled: { frequency, ...(next === before || Number.isNaN(nextRun) ? {} : { next_run: nextRun }) },
          },
        })
        onClose()
      }}
    >
      <TextField label={texts.name} value={name} onInput={setName} autocomplete="off" error={errors.of('name')} />
      <Field label={texts.repeat} error={errors.of('scheduled.frequency')}>
        {(attributes) => (
          <Select
            {...attributes}
            value={frequency}
            options={frequencies.map((value) => ({ value, label: texts.frequencies[value] }))}
            onChange={setFrequency}
          />
        )}
      </Field>
      <TextField
        label={texts.nextRun}
        type="datetime-local"
        value={next}
        onInput={setNext}
        error={errors.of('scheduled.next_run')}
      />
    </FormDialog>
  )
}
