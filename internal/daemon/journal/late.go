package journal

import (
	"errors"
	"log/slog"
	"syscall"

	"sluice/internal/model"
)

// Late is an executor.Journal whose file may be unusable at first, for example on a full disk: each Begin tries again to open it,
// and fails until that works.
type Late struct {
	path string
	log  *slog.Logger
	file *File
}

// OpenLate is Open, but if the state_dir cannot be used it returns a journal all the same, with the error as trouble: a host can
// be observed and repaired without a journal. Any other error, such as a damaged journal, is err.
func OpenLate(path string, log *slog.Logger) (j *Late, left []model.Move, trouble, err error) {
	j = &Late{path: path, log: log}
	j.file, left, err = Open(path, log)
	if err != nil && Unusable(err) {
		return j, nil, err, nil
	}
	return j, left, nil, err
}

// Unusable reports whether an error is about the location of a file and not about the file: it may go away without anybody
// changing the file.
func Unusable(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENOTDIR, syscall.EIO,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Begin implements executor.Journal.
func (j *Late) Begin(m model.Move) error {
	if j.file == nil {
		file, left, err := Open(j.path, j.log)
		if err != nil {
			return err
		}
		for _, old := range left { // too late to resume: what they left shows as findings
			if err := file.End(old); err != nil {
				return errors.Join(err, file.Close())
			}
		}
		j.file = file
	}
	return j.file.Begin(m)
}

// End implements executor.Journal.
func (j *Late) End(m model.Move) error {
	if j.file == nil {
		return nil // nothing was begun
	}
	return j.file.End(m)
}

// Close closes the file; its open Moves stay in it.
func (j *Late) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
