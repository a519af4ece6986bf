package rtnl

// Driver gets every request instead of the kernel, if it is set. It answers by each, or passes the request on by kernel, which calls each
// or what else it is given with the kernel's answers. family is NETLINK_ROUTE or NETLINK_GENERIC.
//
// Only tests set it, before the first socket is opened: it stands for the driver of a NIC that their kernel does not have.
var Driver func(family int, req Message, kernel func(each func(Message)) error, each func(Message)) error

// exchange sends a request, and calls each with the answers.
func (r *Reader) exchange(req *Request, flags uint16, each func(Message)) error {
	if Driver == nil {
		return r.exchangeKernel(req, flags, each)
	}
	return Driver(r.family, req.Message(), func(each func(Message)) error { return r.exchangeKernel(req, flags, each) }, each)
}
